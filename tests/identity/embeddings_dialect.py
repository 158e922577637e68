"""Embeddings of OpenAI's dialect: whose, and what may differ."""

import math

import msgspec
import openai
from openai.types import CreateEmbeddingResponse

from strowger_gateway.adapters.conformance.recordings import request_for
from strowger_gateway.schemas.requests import EmbeddingsRequest
from tests.identity.differences import Difference
from tests.identity.put_together import Json
from tests.identity.recorded import Case, Dialect

DIFFERENCES: tuple[Difference, ...] = (
    Difference("id", "other", "the answer's id is the gateway's, which its logs have"),
    Difference("usage.prompt_tokens", "added", "all tokens of a text are its prompt's"),
    Difference("usage.completion_tokens", "other", "0 at vLLM; embeddings complete nothing"),
)
RARE: tuple[Difference, ...] = (
    Difference("created", "other", "OpenAI's embeddings have no time; vLLM's have one"),
)
"""What only recordings outside the repository show."""


async def read_vectors(address: str, case: Case) -> object:
    """See Reader. The SDK asks for base64 and decodes it; numbers are rounded as float32 are."""
    request = request_for(case.recording)
    assert isinstance(request, EmbeddingsRequest)
    sent = case.recording.sent
    form: Json = {name: msgspec.json.decode(sent[name]) for name in ("dimensions",) if name in sent}
    async with openai.AsyncOpenAI(
        base_url=address, api_key="x", max_retries=0, timeout=10
    ) as client:
        answer = await client.embeddings.create(
            model=case.model, input=["x"] * len(request.inputs), extra_body=form
        )
    return rounded(answer)


def rounded(answer: CreateEmbeddingResponse) -> Json:
    """Return the answer with six significant digits of each number, which a float32 holds."""
    answer.data.sort(key=lambda one: one.index or 0)  # some vendors answer out of order
    for one in answer.data:
        one.embedding = [_rounded(value) for value in one.embedding]
    return answer.to_dict(warnings=False)


def _rounded(value: float) -> float:
    return round(value, 5 - math.floor(math.log10(abs(value)))) if value else 0.0


DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        name="embeddings",
        task="embeddings",
        reader=read_vectors,
        differences=DIFFERENCES,
        rare=RARE,
        adapters={
            name: (f"{name}/embed",)
            for name in ("openai", "azure", "sglang", "vllm", "mistral", "voyage")
        },
    ),
)
