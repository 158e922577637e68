"""Engine services for tests: start one, send requests, read the answers."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import cast

import msgspec
import torch
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from strowger_gateway.local_engine.config import DeviceName, EngineConfig, ModelConfig
from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.local_engine.text.tokenizer import Tokenizer
from strowger_gateway.schemas.answers import Answer, Fold
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, GenerateRequest
from strowger_gateway.schemas.sampling import Sampling

MODEL = "tiny"

DEVICE = cast(DeviceName, os.environ.get("STROWGER_TEST_DEVICE", "cpu"))
"""Where the tests' engines run: cpu, or cuda on a machine with a GPU (`make test-device`)."""


def config(folder: Path, **changes: object) -> EngineConfig:
    """One tiny model on one CPU thread, in float32 as its oracles, with a cache of 64 KiB."""
    plain = EngineConfig(
        models=(ModelConfig(name=MODEL, path=str(folder)),),
        device=DEVICE,
        dtype="float32",
        kv_cache=1 << 18,
    )
    return msgspec.structs.replace(plain, **changes)


@asynccontextmanager
async def serving(settings: EngineConfig) -> AsyncGenerator[Service, None]:
    service = Service(settings)
    service.start()
    try:
        yield service
    finally:
        await service.stop()


def chat(text: str, sampling: Sampling) -> ChatRequest:
    return ChatRequest(
        model=MODEL, messages=(Message(role="user", content=text),), sampling=sampling
    )


def completion(prompt: str | tuple[int, ...], sampling: Sampling) -> CompletionRequest:
    return CompletionRequest(model=MODEL, prompts=(prompt,), sampling=sampling)


async def events(
    service: Service, request: GenerateRequest, tenant: str = "", *, model: str = MODEL
) -> list[Event]:
    async with aclosing(service.generate(request, model=model, tenant=tenant)) as batches:
        return [event async for batch in batches for event in batch]


async def ask(
    service: Service, request: GenerateRequest, tenant: str = "", *, model: str = MODEL
) -> Answer:
    fold = Fold()
    fold.add(await events(service, request, tenant, model=model))
    return fold.answer()


class Oracle:
    """transformers' greedy generation from the same folder, as a reference."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = Tokenizer(str(folder))
        self._model = cast(
            PreTrainedModel,
            AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager"),  # pyright: ignore[reportUnknownMemberType]  # transformers
        ).eval()

    def embeddings(self, tokens: Sequence[int]) -> torch.Tensor:
        """Return [len(tokens), hidden], the input of the first layer."""
        embed = self._model.get_input_embeddings()
        return cast(torch.Tensor, embed(torch.tensor(tokens))).detach()

    def greedy(self, prompt: list[int], count: int, guess: Sequence[int] = ()) -> list[int]:
        """Return `count` tokens after the prompt, end tokens included.

        guess: an answer. If transformers chooses each of its tokens after those before it, it is
        what would be generated, and one pass has shown it.
        """
        if len(guess) == count and self._choices(prompt, guess) == list(guess):
            return list(guess)
        tokens = torch.tensor([prompt])
        out = self._model.generate(  # pyright: ignore  # transformers annotates no argument
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=count,
            min_new_tokens=0,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        return cast(list[int], out[0, len(prompt) :].tolist())  # pyright: ignore  # as above

    @torch.inference_mode()
    def _choices(self, prompt: list[int], answer: Sequence[int]) -> list[int]:
        """Return the likeliest token at each place of the answer."""
        logits = self._model(torch.tensor([[*prompt, *answer]])).logits  # pyright: ignore  # as above
        places = cast(torch.Tensor, logits)[0, len(prompt) - 1 : -1]
        return cast(list[int], places.argmax(-1).tolist())  # pyright: ignore[reportUnknownMemberType]  # torch
