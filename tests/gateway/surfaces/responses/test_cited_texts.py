"""A citation is of the text that it points into, wherever searches divide the answer."""

from collections.abc import Mapping
from typing import cast

from strowger_gateway.schemas.events import Finished, OpaqueDelta, Started, TextDelta
from strowger_gateway.schemas.searches import Cited, Search, citations_field, searches_field
from tests.gateway.surfaces.responses.streams import asked, last_response, response_stream


def test_places_of_citations_are_counted_in_the_text_after_the_search() -> None:
    first, second = "Let me look. ", "It snows, é, today."
    begin = len(first) + second.index("é")
    cited = (
        Cited(url="https://before.test", start_index=0, end_index=3),
        Cited(url="https://a.test", start_index=begin, end_index=begin + 1),
        Cited(url="https://nowhere.test"),
    )
    events = (
        Started(id="r", model="m", created=1),
        TextDelta(text=first),
        OpaqueDelta(fields=searches_field([Search(queries=("snow",))])),
        TextDelta(text=second),
        OpaqueDelta(fields=citations_field(cited)),
        Finished(reason="stop"),
    )

    answer = last_response(response_stream([events], asked(tools=[{"type": "web_search"}])))

    before, _, after = cast("list[Mapping[str, list[Mapping[str, object]]]]", answer["output"])
    assert before["content"][0]["annotations"] == []
    (part,) = after["content"]
    found = cast("list[Mapping[str, int]]", part["annotations"])
    assert [one["url"] for one in found] == ["https://a.test", "https://nowhere.test"]
    assert second[found[0]["start_index"] : found[0]["end_index"]] == "é"
    assert (found[1]["start_index"], found[1]["end_index"]) == (0, 0)
