"""The Responses API: what may differ."""

import msgspec
import openai

from tests.identity.differences import Difference
from tests.identity.put_together import Json, events_of
from tests.identity.recorded import Case, Dialect

REPEATED = ("instructions", "tools", "reasoning", "text", "temperature", "top_p")
"""Settings that a response repeats, and which are sent as they were recorded."""

DEFAULTS = (
    "background",
    "frequency_penalty",
    "presence_penalty",
    "service_tier",
    "temperature",
    "top_logprobs",
    "top_p",
)
DIFFERENCES: tuple[Difference, ...] = (
    *(
        Difference(f"{at}{name}", "other", reason)
        for at in ("", "*.response.")
        for name, reason in (
            ("id", "the answer's id is the gateway's, under which it is stored"),
            ("created_at", "the time of the gateway's answer"),
            ("completed_at", "as above"),
            ("metadata.*", "the client's; xAI adds its fingerprint"),
            ("tools*", "the client's, without what the vendor decides"),
            *((name, "the specification's default, if the client sets none") for name in DEFAULTS),
        )
    ),
    Difference("reasoning.*", "other", "as of the tools"),
    *(
        Difference(f"{at}usage.*_tokens_details.*", "added", "clients require every count")
        for at in ("", "*.response.")
    ),
)


async def read_response(address: str, case: Case) -> object:
    """See Reader."""
    sent = case.recording.sent
    settings: Json = {name: msgspec.json.decode(sent[name]) for name in REPEATED if name in sent}
    async with openai.AsyncOpenAI(
        base_url=address, api_key="x", max_retries=0, timeout=10
    ) as client:
        create = client.responses.create
        if not case.recording.streamed:
            answer = await create(model=case.model, input="hi", extra_body=settings)
            return answer.to_dict(warnings=False)
        events = await create(model=case.model, input="hi", stream=True, extra_body=settings)
        return events_of([one.to_dict(warnings=False) async for one in events])


DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        name="responses",
        task="chat",
        reader=read_response,
        differences=DIFFERENCES,
        adapters={"openai-responses": ("openai-responses/",)},
        # Its stream lacks the events that begin an item, which the gateway adds.
        without=("openai-responses/chat-stream-minimal",),
    ),
)
