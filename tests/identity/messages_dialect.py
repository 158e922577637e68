"""Anthropic's Messages API: what may differ."""

import anthropic
from anthropic.types import MessageParam

from tests.identity.differences import Difference
from tests.identity.put_together import events_of
from tests.identity.recorded import Case, Dialect

HELLO: MessageParam = {"role": "user", "content": "hi"}
EVENTS = frozenset(
    {
        "content_block_delta",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_start",
        "message_stop",
    }
)
DIFFERENCES: tuple[Difference, ...] = (
    Difference("id", "other", "the answer's id is the gateway's, which its logs have"),
    Difference("*.message.id", "other", "as above"),
    Difference("*.usage.*", "added", "the end of a stream repeats the counts of its start"),
    Difference("*.content_block.citations", "empty", "a text that begins has none yet"),
)


async def read_message(address: str, case: Case) -> object:
    """See Reader. Of other events, the gateway sends pings of its own, and no unknown ones."""
    async with anthropic.AsyncAnthropic(
        base_url=address, api_key="x", max_retries=0, timeout=10
    ) as client:
        if not case.recording.streamed:
            answer = await client.messages.create(
                model=case.model, max_tokens=1000, messages=[HELLO]
            )
            return answer.to_dict(warnings=False)
        events = await client.messages.create(
            model=case.model, max_tokens=1000, messages=[HELLO], stream=True
        )
        read = [one.to_dict(warnings=False) async for one in events]
        return events_of(one for one in read if one["type"] in EVENTS)


DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        name="messages",
        task="chat",
        reader=read_message,
        differences=DIFFERENCES,
        adapters={"anthropic": ("anthropic/",)},
        without=("anthropic/count-tokens", "anthropic/stream-spliced-message-start"),
        surface="",
    ),
)
