"""A request with equivalent fields has the same meaning."""

import pytest
from msgspec import Raw

from strowger_gateway.schemas.equivalents import DEFAULTS, in_known_fields
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling

BEAMS = frozenset({"beam_width", "n", "best_of"})


def chat(sampling: Sampling | None = None, **extra: bytes) -> ChatRequest:
    return ChatRequest(
        model="m",
        messages=(),
        sampling=sampling or Sampling(),
        extra={name: Raw(raw) for name, raw in extra.items()},
    )


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        (Sampling(n=3), Sampling(n=3, beam_width=3)),
        (Sampling(best_of=4), Sampling(beam_width=4)),
        (Sampling(n=2, best_of=4), Sampling(n=2, beam_width=4)),
    ],
)
def test_a_switch_for_beams_becomes_their_number(asked: Sampling, meant: Sampling) -> None:
    assert in_known_fields(chat(asked, use_beam_search=b"true"), BEAMS) == chat(meant)


@pytest.mark.parametrize(
    ("request_", "known"),
    [
        (chat(Sampling(n=3), use_beam_search=b"true"), frozenset({"n"})),
        (chat(Sampling(n=3, beam_width=2), use_beam_search=b"true"), BEAMS),
        (chat(Sampling(n=1), use_beam_search=b"true"), BEAMS),
        (chat(use_beam_search=b"true"), BEAMS),
        (chat(Sampling(n=3), use_beam_search=b'"yes"'), BEAMS),
        (chat(skip_special_tokens=b"false", include_stop_str_in_output=b"true"), BEAMS),
        (chat(chat_template_kwargs=b"{}"), BEAMS),
    ],
)
def test_what_has_no_equivalent_is_unchanged(request_: ChatRequest, known: frozenset[str]) -> None:
    assert in_known_fields(request_, known) == request_


@pytest.mark.parametrize("name", DEFAULTS)
def test_fields_without_effect_are_omitted(name: str) -> None:
    request = chat(None, **{name: DEFAULTS[name], "other": b"1"})

    assert in_known_fields(request, BEAMS) == chat(other=b"1")
