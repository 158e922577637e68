"""A finished answer as TensorRT-LLM's output tensors: rectangular, by name, shape and dtype.

Source: the seed's second table, https://nvidia.github.io/TensorRT-LLM/advanced/inference-request.html
"""

from array import array
from collections.abc import Sequence
from math import fsum

from strowger_gateway.gateway.surfaces.kserve.tensors import float32, int32
from strowger_gateway.schemas.answers import Answer, Choice
from strowger_gateway.schemas.errors import UpstreamBroken
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.tensors import ITEM_BYTES, Tensor

_FLOAT = ITEM_BYTES["float32"]


class Outputs:
    """The tensors of one answer, each created on request.

    B: answers, N: tokens of the longest answer, V: vocabulary size.
    """

    def __init__(
        self, answer: Answer, *, prompt: Sequence[int], pad: int, with_input: bool
    ) -> None:
        """prompt: the request's tokens, prepended to each row if `with_input`."""
        self._answer = answer
        self._choices = answer.choices
        self._prompt = prompt
        self._pad = pad
        self._with_input = with_input
        self._longest = max((len(choice.token_ids) for choice in answer.choices), default=0)

    def tensor(self, name: str) -> Tensor:
        """Raise UpstreamBroken if the backend did not return what was requested."""
        match name:
            case "output_ids":
                return self._output_ids()
            case "sequence_length":
                return int32((len(self._choices),), self._lengths())
            case "output_log_probs":
                return self._output_log_probs()
            case "cum_log_probs":
                sums = [cum_log_prob(choice) for choice in self._choices]
                return float32((1, len(sums)), sums)
            case "context_logits":
                return self._context_logits()
            case "generation_logits":
                return self._generation_logits()
            case "num_input_tokens":
                return int32((1,), (len(self._prompt),))
            case "num_output_tokens":
                return int32((1,), (sum(len(one.token_ids) for one in self._choices),))
            case _:
                raise KeyError(name)

    def _before(self) -> Sequence[int]:
        return self._prompt if self._with_input else ()

    def _lengths(self) -> list[int]:
        before = len(self._before())
        return [before + len(choice.token_ids) for choice in self._choices]

    def _output_ids(self) -> Tensor:
        """[B, N] int32."""
        before = self._before()
        ids: list[int] = []
        for choice in self._choices:
            missing = self._longest - len(choice.token_ids)
            ids += (*before, *choice.token_ids, *([self._pad] * missing))
        return int32((len(self._choices), len(before) + self._longest), ids)

    def _output_log_probs(self) -> Tensor:
        """[1, B, N] float32; 0 after the end of a shorter answer."""
        values = array("f")
        for choice in self._choices:
            own = log_probs(choice)
            values.extend(own)
            values.extend([0.0] * (self._longest - len(own)))
        return float32((1, len(self._choices), self._longest), values)

    def _context_logits(self) -> Tensor:
        """[1, prompt, V] float32."""
        logits = self._answer.context_logits
        if logits is None:
            raise missing_output("context_logits")
        return Tensor(dtype=logits.dtype, shape=(1, *logits.shape), data=logits.data)

    def _generation_logits(self) -> Tensor:
        """[1, B, N, V] float32; 0 after the end of a shorter answer."""
        rows: list[bytes] = []
        width = 0
        for choice in self._choices:
            logits = choice.generation_logits
            if logits is None:
                raise missing_output("generation_logits")
            width = logits.shape[1]
            rows += (logits.data, bytes((self._longest - logits.shape[0]) * width * _FLOAT))
        shape = (1, len(self._choices), self._longest, width)
        return Tensor(dtype="float32", shape=shape, data=b"".join(rows))


class TextOutputs:
    """The tensors of one text answer; strings are BYTES on the wire."""

    def __init__(self, answer: Answer) -> None:
        self._choices = answer.choices
        self._usage = answer.usage or Usage()

    def tensor(self, name: str) -> Tensor | tuple[str, ...]:
        """Raise UpstreamBroken if the backend did not return what was requested."""
        match name:
            case "text_output":
                return tuple(one.text or one.refusal or "" for one in self._choices)
            case "output_log_probs":
                return self._output_log_probs()
            case "cum_log_probs":
                sums = [cum_log_prob(one) for one in self._choices]
                return float32((1, len(sums)), sums)
            case "num_input_tokens":
                return int32((1,), (count(self._usage.prompt_tokens, name),))
            case "num_output_tokens":
                return int32((1,), (count(self._usage.completion_tokens, name),))
            case _:
                raise KeyError(name)

    def _output_log_probs(self) -> Tensor:
        """[1, B, N] float32; 0 after the end of a shorter answer."""
        each = [[one.logprob or 0.0 for one in choice.logprobs] for choice in self._choices]
        longest = max(map(len, each), default=0)
        if not longest:
            raise missing_output("output_log_probs")
        values = [value for own in each for value in (*own, *([0.0] * (longest - len(own))))]
        return float32((1, len(each), longest), values)


def log_probs(choice: Choice) -> list[float]:
    """Return one value per token. Raises UpstreamBroken if one is missing."""
    values = [one.logprob for one in choice.logprobs if one.logprob is not None]
    if len(values) != len(choice.token_ids):
        raise missing_output("output_log_probs")
    return values


def cum_log_prob(choice: Choice) -> float:
    """Return the backend's sum, else the sum of the tokens' log probabilities."""
    if choice.finish is not None and choice.finish.cum_logprob is not None:
        return choice.finish.cum_logprob
    return fsum(one.logprob or 0.0 for one in choice.logprobs)


def missing_output(what: str) -> UpstreamBroken:
    return UpstreamBroken(f"the answer lacks the requested {what}", upstream="backend")


def count(value: int | None, name: str) -> int:
    """Return the count; raise UpstreamBroken if the backend did not return it."""
    if value is None:
        raise missing_output(name)
    return value
