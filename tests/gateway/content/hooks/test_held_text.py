"""Held text: a finding is masked whole at every split of its text."""

from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strowger_gateway.gateway.config.schema.guardrails import GuardrailConfig, HoldBack
from strowger_gateway.gateway.content.guardrails.patterns import Pattern, PatternHook
from strowger_gateway.gateway.content.guardrails.secrets import secret_hook
from strowger_gateway.gateway.content.hooks.contract import Hook, TextWindow, Verdict
from strowger_gateway.gateway.content.hooks.counts import GuardCounts
from strowger_gateway.gateway.content.hooks.guards import Rail, RequestGuards
from strowger_gateway.gateway.content.hooks.stream_guard import HeldText, StreamGuard
from strowger_gateway.gateway.content.hooks.streamed_answer import now
from strowger_gateway.gateway.content.hooks.text_hook import masked, merged
from strowger_gateway.schemas.errors import ContentBlocked
from strowger_gateway.schemas.events import Event, Finished, TextDelta

HOOK = PatternHook(
    [
        Pattern(name="key", regex=r"\bsk-[a-z0-9]{4,8}\b", replacement="[key]"),
        Pattern(name="digits", regex=r"\d{4}"),
        Pattern(name="address", regex=r"\d+@x", replacement="é"),
    ]
)
LONGEST = 20
TEXTS = st.lists(
    st.sampled_from(["sk-", "ab1", "12", "3", "@x", " ", "é", "zz", "4567", "\U0001f511"]),
    max_size=40,
).map("".join)


def guard(hook: Hook, characters: int = LONGEST) -> StreamGuard:
    """A stream that is masked by a hook."""
    hold = HoldBack(characters=characters)
    settings = GuardrailConfig(name="g", use="g", mode="mask", hold_back=hold)
    rail = Rail(settings=settings, hook=hook, enforces=True, waits=False)
    return StreamGuard(RequestGuards([rail], GuardCounts()), rail)


def texts(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def streamed(pieces: Sequence[str], stream: StreamGuard) -> tuple[str, int]:
    """The text that the client receives, and the most characters that it was late."""
    out, sent, late = "", 0, 0
    for piece in pieces:
        batch: list[Event] = [TextDelta(text=piece)]
        sent += len(piece)
        if not stream.absorb(batch):
            out += texts(now(stream.take(batch)))
        late = max(late, sent - len(out))
    out += texts(now(stream.take([Finished(reason="stop")])))
    return out, late


def cut(text: str, cuts: Sequence[int]) -> list[str]:
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@given(TEXTS, st.data())
def test_a_stream_is_masked_as_the_whole_text_is(text: str, data: st.DataObject) -> None:
    spans = HOOK.find(text, 0)
    if any(span.end - span.start > LONGEST for span in merged(spans)):
        return
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    assert streamed(cut(text, cuts), guard(HOOK))[0] == masked(text, spans)


def test_a_finding_is_masked_at_each_split_into_two_and_letter_by_letter() -> None:
    for before in range(0, 45, 3):
        text = "x " * before + "the key sk-abc123 and 12@x, é 4567."
        whole = masked(text, HOOK.find(text, 0))
        assert whole.endswith("the key [key] and é, é [masked].")
        for at in range(len(text)):
            assert streamed(cut(text, [at]), guard(HOOK))[0] == whole
        assert streamed(list(text), guard(HOOK))[0] == whole


@given(st.integers(1, 40), st.integers(1, 200))
@example(1, 128)
def test_no_more_text_waits_than_the_hold_back_and_one_step(size: int, characters: int) -> None:
    text = "nothing is found in this " * 40
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    out, late = streamed(pieces, guard(HOOK, characters))
    assert out == text
    assert late <= characters + max(1, characters // 2)


def test_a_hook_without_io_that_returns_something_to_wait_for_fails_and_passes_nothing() -> None:
    class Late(PatternHook):
        async def _wait(self, window: TextWindow) -> Verdict:
            return super().chunk(window)

        def chunk(self, window: TextWindow) -> Verdict:
            return cast(Verdict, self._wait(window))

    with pytest.raises(ContentBlocked) as failed:
        streamed(["the key sk-abc123"], guard(Late([])))
    assert (failed.value.code, failed.value.status) == ("guardrail_failed", 503)


def test_a_secret_much_longer_than_the_hold_back_is_masked_to_its_end() -> None:
    lines = "\n".join("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDBj08sp5++4anGc1a"
                      for _ in range(25))  # fmt: skip
    key = f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----"
    text = f"Here it is:\n{key}\nKeep it."
    for size in (1, 4, 7, 1000):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        out, _ = streamed(pieces, guard(secret_hook({}), 64))
        assert out == "Here it is:\n[secret]\nKeep it.", size


def test_the_rest_of_a_finding_whose_first_part_has_left_is_masked() -> None:
    held = HeldText(LONGEST, "text", 0)
    held.add("key sk-ab")
    first, _ = held.release(HOOK.chunk(held.window(final=False)), final=False, everything=True)
    held.add("c123 end")
    rest, rules = held.release(HOOK.chunk(held.window(final=True)), final=True)
    assert (first, rest, rules) == ("key sk-ab", " end", ("key",))
