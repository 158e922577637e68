"""Render answers of Triton's generate extension: tensors are flat, single elements are scalars.

https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.base import Headers
from strowger_gateway.gateway.surfaces.kserve.bodies import VERSION, error_body
from strowger_gateway.gateway.surfaces.kserve.outputs import (
    Outputs,
    count,
    cum_log_prob,
    missing_output,
)
from strowger_gateway.gateway.surfaces.kserve.requests import (
    GenerateTextRequest,
    GenerateTokensRequest,
)
from strowger_gateway.gateway.surfaces.kserve.tensors import json_of_tensor
from strowger_gateway.gateway.surfaces.sse import frame
from strowger_gateway.schemas.answers import Answer, Choice, Fold
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    Logits,
    RefusalDelta,
    TextDelta,
    TokenLogprob,
    Tokens,
    Usage,
)
from strowger_gateway.schemas.tensors import Tensor


class GenerateResponse(Struct, frozen=True, kw_only=True):
    """One response: the whole answer, one of its sequences, or a piece of one."""

    model_name: str
    model_version: str = VERSION
    id: str | UnsetType = UNSET
    sequence_index: int | UnsetType = UNSET
    text_output: str | list[str] | UnsetType = UNSET
    output_ids: Raw | UnsetType = UNSET
    sequence_length: Raw | UnsetType = UNSET
    output_log_probs: Raw | UnsetType = UNSET
    cum_log_probs: Raw | UnsetType = UNSET
    context_logits: Raw | UnsetType = UNSET
    generation_logits: Raw | UnsetType = UNSET
    num_input_tokens: int | UnsetType = UNSET
    num_output_tokens: int | UnsetType = UNSET
    finish_reason: str | list[str] | UnsetType = UNSET


_encode: Final = msgspec.json.Encoder().encode


class GenerateRenderer:
    """Render one answer. Mutable state: events so far, and sums of log probabilities."""

    def __init__(self, request: GenerateTextRequest | GenerateTokensRequest) -> None:
        self._request = request
        self._reply = request.reply
        self._prompt = request.tokens if isinstance(request, GenerateTokensRequest) else ()
        self._fold = Fold()
        self._sums: dict[int, float] = {}
        self._counts: dict[int, int] = {}
        self._usage: Usage | None = None

    def headers(self, backend: str) -> Headers:
        return []

    def answer(self, answer: Answer) -> bytes:
        return _encode(self._whole(answer))

    def events(self, batch: Sequence[Event]) -> bytes:
        if not self._reply.pieces:
            self._fold.add(batch)
            return b""
        return b"".join(frame(_encode(one)) for event in batch for one in self._pieces(event))

    def finish(self) -> bytes:
        if self._reply.pieces:
            return self._totals()
        answer = self._fold.answer()
        if not self._reply.sequences:
            return frame(_encode(self._whole(answer)))
        parts = (msgspec.structs.replace(answer, choices=[one]) for one in answer.choices)
        return b"".join(frame(_encode(self._whole(part))) for part in parts)

    def error(self, exc: GatewayError) -> bytes:
        return frame(error_body(exc))

    def _frame(self, index: int | None = None) -> GenerateResponse:
        return GenerateResponse(
            model_name=self._request.model,
            id=self._reply.id or UNSET,
            sequence_index=index if self._reply.sequences and index is not None else UNSET,
        )

    def _whole(self, answer: Answer) -> GenerateResponse:
        """Return all of the answer's choices in one response."""
        reply, choices = self._reply, answer.choices
        texts = [choice.text or choice.refusal or "" for choice in choices]
        reasons = [choice.finish.reason for choice in choices if choice.finish is not None]
        found = msgspec.structs.replace(
            self._frame(choices[0].index if choices else None),
            text_output=_one_or_all(texts),
            finish_reason=_one_or_all(reasons) if reply.finish_reason else UNSET,
        )
        if isinstance(self._request, GenerateTokensRequest):
            return self._with_tensors(found, answer)
        usage = answer.usage or Usage()
        return msgspec.structs.replace(
            found,
            output_log_probs=_flat_log_probs(choices) if reply.log_probs else UNSET,
            cum_log_probs=_numbers([cum_log_prob(one) for one in choices])
            if reply.log_probs
            else UNSET,
            num_input_tokens=count(usage.prompt_tokens, "num_input_tokens")
            if reply.num_input_tokens
            else UNSET,
            num_output_tokens=count(usage.completion_tokens, "num_output_tokens")
            if reply.num_output_tokens
            else UNSET,
        )

    def _with_tensors(self, found: GenerateResponse, answer: Answer) -> GenerateResponse:
        reply = self._reply
        outputs = Outputs(answer, prompt=self._prompt, pad=reply.pad, with_input=reply.with_input)

        def tensor(name: str, *, requested: bool = True) -> Raw | UnsetType:
            return _flat(outputs.tensor(name)) if requested else UNSET

        made = sum(len(choice.token_ids) for choice in answer.choices)
        return msgspec.structs.replace(
            found,
            text_output=found.text_output if any(one.text for one in answer.choices) else UNSET,
            output_ids=tensor("output_ids"),
            sequence_length=tensor("sequence_length"),
            output_log_probs=tensor("output_log_probs", requested=reply.log_probs),
            cum_log_probs=tensor("cum_log_probs", requested=reply.log_probs),
            context_logits=tensor("context_logits", requested=reply.context_logits),
            generation_logits=tensor("generation_logits", requested=reply.generation_logits),
            num_input_tokens=len(self._prompt) if reply.num_input_tokens else UNSET,
            num_output_tokens=made if reply.num_output_tokens else UNSET,
        )

    def _pieces(self, event: Event) -> Iterator[GenerateResponse]:
        match event:
            case TextDelta() | RefusalDelta():
                logprobs = event.logprobs if isinstance(event, TextDelta) else ()
                yield self._piece(event.index, event.text, logprobs)
            case Tokens():
                yield from self._tokens(event)
            case Logits():
                raw = _flat(event.tensor)
                name = "context_logits" if event.of == "context" else "generation_logits"
                yield msgspec.structs.replace(self._frame(event.index), **{name: raw})
            case Finished():
                if self._reply.finish_reason or event.index not in self._counts:
                    yield msgspec.structs.replace(
                        self._piece(event.index, "", ()),
                        finish_reason=event.reason if self._reply.finish_reason else UNSET,
                    )
            case Usage():
                self._usage = event
            case _:
                pass  # the format has no reasoning or tools, and a raw prompt produces none

    def _tokens(self, event: Tokens) -> Iterator[GenerateResponse]:
        """Yield one response per token, as TensorRT-LLM does; text, if any, comes with the last."""
        last = len(event.ids) - 1
        for place, token in enumerate(event.ids):
            logprobs = event.logprobs[place : place + 1]
            if self._reply.log_probs and not logprobs:
                raise missing_output("output_log_probs")
            text = event.text if place == last else ""
            yield msgspec.structs.replace(
                self._piece(event.index, text, logprobs),
                text_output=text or UNSET,
                output_ids=Raw(b"%d" % token),
                sequence_length=Raw(b"1"),
            )

    def _piece(self, index: int, text: str, logprobs: tuple[TokenLogprob, ...]) -> GenerateResponse:
        self._counts[index] = self._counts.get(index, 0) + 1
        found = msgspec.structs.replace(self._frame(index), text_output=text)
        if not self._reply.log_probs or not logprobs:
            return found
        values = [one.logprob or 0.0 for one in logprobs]
        self._sums[index] = self._sums.get(index, 0.0) + sum(values)
        return msgspec.structs.replace(
            found,
            output_log_probs=_numbers(values),
            cum_log_probs=_numbers([self._sums[index]]),
        )

    def _totals(self) -> bytes:
        """Return the token counts, known only at the end; b"" if not requested."""
        reply = self._reply
        if not reply.num_input_tokens and not reply.num_output_tokens:
            return b""
        usage = self._usage or Usage()
        found = msgspec.structs.replace(
            self._frame(),
            text_output="",
            num_input_tokens=len(self._prompt) or count(usage.prompt_tokens, "num_input_tokens")
            if reply.num_input_tokens
            else UNSET,
            num_output_tokens=count(usage.completion_tokens, "num_output_tokens")
            if reply.num_output_tokens
            else UNSET,
        )
        return frame(_encode(found))


def _one_or_all(values: Sequence[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else list(values)


def _numbers(values: list[float]) -> Raw:
    return Raw(_encode(values[0] if len(values) == 1 else values))


def _flat(tensor: Tensor) -> Raw:
    data = json_of_tensor(tensor)
    return Raw(data[1:-1] if prod(tensor.shape) == 1 else data)


def _flat_log_probs(choices: Sequence[Choice]) -> Raw:
    return _numbers([one.logprob or 0.0 for choice in choices for one in choice.logprobs])
