"""Chat completions and completions of OpenAI's dialect: whose, and what may differ.

Databricks speaks it too, and has a surface of its own.
"""

from collections.abc import AsyncIterable

import msgspec
import openai
from openai import BaseModel
from openai.types.chat import ChatCompletionMessageParam

from strowger_gateway.adapters.openai.vendor_profiles import VENDORS
from tests.identity.differences import Difference
from tests.identity.put_together import Json, chat_of
from tests.identity.recorded import Case, Dialect

HELLO: ChatCompletionMessageParam = {"role": "user", "content": "hi"}

SAID = "choices.*.message"
HEAD: tuple[Difference, ...] = (
    Difference("id", "other", "the answer's id is the gateway's, which its logs have"),
    Difference("created", "other", "the time of the gateway's answer"),
)
REASONING: tuple[Difference, ...] = (
    Difference(f"{SAID}.reasoning", "added", "both names of reasoning, whichever the vendor has"),
    Difference(f"{SAID}.reasoning_content", "added", "as above"),
)
MODEL = Difference("model", "added", "the requested one, where the vendor names none")
CHAT: tuple[Difference, ...] = (
    *HEAD,
    *REASONING,
    Difference("object", "other", "the dialect's word, whatever the vendor writes"),
    MODEL,
    Difference("obfuscation", "other", "padding that OpenAI adds to its own streams"),
    Difference("choices.*.finish_reason", "other", "OpenAI's word; the vendor's is native"),
    Difference("choices.*.native_finish_reason", "added", "the vendor's word, if it is another"),
    Difference(f"{SAID}.role", "added", "some streams of Workers AI name no role"),
    Difference(f"{SAID}.annotations", "added", "pages that Perplexity's text has as numbers"),
    Difference(f"{SAID}.content", "empty", "beside calls it is null, as OpenAI sends it"),
    Difference(f"{SAID}.content", "json", "the dialect's content is text"),
    Difference(f"{SAID}.*", "empty", "Snowflake sends each member, most of them empty"),
    Difference(f"{SAID}.tool_calls.*.index", "other", "calls have numbers in streams only"),
    Difference(
        f"{SAID}.tool_calls.*.function.arguments", "added", "a call without arguments has `{}`"
    ),
    Difference("choices.*.delta", "other", "empty, in Perplexity's whole answers"),
    Difference("choices.*.logprobs", "empty", "of no token"),
    Difference("choices.*.logprobs.*", "other", "Together's are those of completions"),
    Difference("choices.*.content_filter_results", "empty", "no verdict"),
    Difference("choices.*.text", "other", "Together repeats what the delta says"),
    Difference("choices.*.matched_stop", "other", "SGLang's name"),
    Difference("choices.*.stop_reason", "added", "vLLM's name for it"),
    Difference("usage", "added", "Groq streams it beside, in `x_groq`"),
    Difference("usage.completion_tokens", "other", "xAI counts reasoning beside them"),
    Difference("usage.*_details", "added", "counts that the vendor has under other names"),
)
RARE: tuple[Difference, ...] = (
    Difference(SAID, "added", "Azure leaves out a message that its filter stopped"),
    Difference(f"{SAID}.tool_calls.*.id", "json", "old versions of TGI number calls"),
    Difference(f"{SAID}.tool_calls.*.function.arguments", "json", "and parse their arguments"),
    Difference("choices.*.logprobs.*.bytes*", "added", "the text's, where the vendor sends none"),
    Difference("object", "added", "the dialect's word, where the vendor has none"),
)
"""What only recordings outside the repository show."""

DATABRICKS: tuple[Difference, ...] = (
    *HEAD,
    *REASONING,
    Difference(f"{SAID}.content", "other", "of parts, one of them reasoning, becomes text"),
    Difference(f"{SAID}.reasoning_details", "added", "reasoning with its proof"),
    Difference(f"{SAID}.reasoning_signature", "added", "its proof"),
    Difference(
        f"{SAID}.tool_calls.*.function.arguments", "added", "a call without arguments has `{}`"
    ),
    Difference("usage.*_details", "added", "counts that the vendor has under other names"),
)
COMPLETIONS: tuple[Difference, ...] = (*HEAD,)


async def read_chat(address: str, case: Case) -> object:
    """See Reader."""
    more = count_of(case)
    async with openai.AsyncOpenAI(
        base_url=address, api_key="x", max_retries=0, timeout=10
    ) as client:
        create = client.chat.completions.create
        if not case.recording.streamed:
            answer = await create(model=case.model, messages=[HELLO], extra_body=more)
            return answer.to_dict(warnings=False)
        chunks = await create(
            model=case.model,
            messages=[HELLO],
            stream=True,
            stream_options={"include_usage": True},
            extra_body=more,
        )
        return await together(chunks)


async def read_completion(address: str, case: Case) -> object:
    """See Reader."""
    prompt = msgspec.json.decode(case.recording.sent["prompt"])
    more = count_of(case)
    async with openai.AsyncOpenAI(
        base_url=address, api_key="x", max_retries=0, timeout=10
    ) as client:
        create = client.completions.create
        if not case.recording.streamed:
            answer = await create(model=case.model, prompt=prompt, extra_body=more)
            answer.choices.sort(key=lambda one: one.index)  # some vendors answer out of order
            return answer.to_dict(warnings=False)
        chunks = await create(
            model=case.model,
            prompt=prompt,
            stream=True,
            stream_options={"include_usage": True},
            extra_body=more,
        )
        return await together(chunks)


async def together(chunks: AsyncIterable[BaseModel]) -> Json:
    return chat_of([one.to_dict(warnings=False) async for one in chunks])


def count_of(case: Case) -> Json:
    """Return how many choices the recorded request asked for."""
    sent = case.recording.sent
    return {"n": msgspec.json.decode(sent["n"])} if "n" in sent else {}


DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        name="chat",
        task="chat",
        reader=read_chat,
        differences=CHAT,
        rare=RARE,
        adapters={
            "openai": ("openai/chat",),
            "azure": ("azure/chat", "azure/foundry"),
            "sglang": ("sglang/chat",),
            "vllm": ("vllm/chat", "vllm/hosted", "vllm/json", "vllm/stream", "vllm/tools"),
            "tgi": ("tgi/v1-chat", "tgi/v1-tool"),
            **{vendor.name: (f"{vendor.name}/",) for vendor in VENDORS if vendor.chat},
        },
    ),
    Dialect(
        name="databricks",
        task="chat",
        reader=read_chat,
        differences=DATABRICKS,
        rare=(*RARE, MODEL),
        adapters={"databricks": ("databricks/",)},
        surface="/serving-endpoints",
    ),
    Dialect(
        name="completions",
        task="completion",
        reader=read_completion,
        differences=COMPLETIONS,
        adapters={"openai": ("openai/completions",), "vllm": ("vllm/completions",)},
    ),
)
