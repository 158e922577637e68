"""One odd member of a search or a citation costs itself, and nothing next to it."""

import json

import pytest
from msgspec import Raw

from strowger_gateway.adapters.web_search.answers import citations_of_blocks, grounding_of
from strowger_gateway.adapters.web_search.settings import settings_of
from strowger_gateway.schemas.searches import ANNOTATIONS, Cited, citations_of

URL = "https://meteo.test/bern"
ODD: list[object] = [None, 7, "text", [], {"url": 7}, {"type": 7}, {"url_citation": {"url": None}}]


def raw(value: object) -> Raw:
    return Raw(json.dumps(value).encode())


def test_citations_of_claude_without_a_title_are_read_next_to_odd_ones() -> None:
    good = {"type": "web_search_result_location", "url": URL, "title": None, "cited_text": None}
    nowhere = {"type": "web_search_result_location", "url": None}
    block = {"type": "text", "text": "Snow.", "citations": [*ODD, nowhere, good]}

    assert citations_of_blocks([raw(block)]) == [Cited(url=URL, end_index=5)]


def test_annotations_without_a_title_or_a_place_are_read_next_to_odd_ones() -> None:
    bare = {"url": URL, "title": None, "start_index": None, "content": None}
    told = raw([*ODD, {"type": "url_citation", "url_citation": bare}])

    assert citations_of({ANNOTATIONS: told}) == (Cited(url=URL),)


def test_an_odd_page_or_segment_of_googles_leaves_the_other_citations() -> None:
    support = {"segment": {"startIndex": 0, "endIndex": 4}, "groundingChunkIndices": [1, 9]}
    negative = {"segment": {"startIndex": -3}, "groundingChunkIndices": [-1]}
    grounding: dict[str, object] = {
        "webSearchQueries": ["Bern"],
        "groundingChunks": ["odd", {"web": {"uri": URL}}],
        "groundingSupports": [{"segment": {"endIndex": "x"}}, *ODD[:4], negative, support],
    }

    searches, cited = grounding_of({"grounding_metadata": raw(grounding)}, "Snow.")

    assert [one.url for one in searches[0].results] == [URL]
    assert cited == [Cited(url=URL, end_index=4)]


@pytest.mark.parametrize(
    "odd",
    [{"max_uses": "five"}, {"user_location": "Bern"}, {"search_context_size": 3}, {"filters": []}],
    ids=json.dumps,
)
def test_an_odd_setting_of_a_search_does_not_lift_its_limits(odd: dict[str, object]) -> None:
    tool = {"type": "web_search", "blocked_domains": ["a.test"], "external_web_access": False}

    found = settings_of(raw({**tool, **odd}))

    assert (found.blocked, found.offline) == (("a.test",), True)
