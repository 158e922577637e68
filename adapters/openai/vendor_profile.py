"""How a speaker of the OpenAI dialect can differ from OpenAI: the columns of the catalogue."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from adapters.base import ALL_THOUGHTS, READABLE, Range
from schemas.fields import Task
from schemas.messages import ThoughtKind

MaxTokensField = Literal["max_tokens", "max_completion_tokens"]

REFERENCE_ONLY = frozenset(
    {
        "top_k",
        "min_p",
        "repetition_penalty",
        "min_tokens",
        "no_repeat_ngram_size",
        "stop_token_ids",
        "bad_words",
        "ignore_eos",
        "beam_width",
        "length_penalty",
        "early_stopping",
        "priority",
    }
)
"""What our OpenAI surface takes beyond OpenAI's reference."""

COMPLETIONS_ONLY = frozenset({"best_of"})
"""What the reference has for completions alone; other servers take it for chat as well."""


class Source(Struct, frozen=True, kw_only=True):
    """What a row rests on. edition: a version, else the month in which it was read."""

    url: str
    edition: str


class Vendor(Struct, frozen=True, kw_only=True):
    """One row. What a default says is what goes for a server of which nothing is known.

    name:        what `adapter:` in the configuration says.
    base_url:    used where the configuration gives none; of local servers, their own default.
    unsupported: fields that the vendor documents as refused or ignored, or that the request
                 which it publishes does not have; by schemas.fields.
    beyond:      of `REFERENCE_ONLY`, what the vendor reads; `None`: not known, so all is sent.
    names:       sampling fields of ours by a name of the vendor's, `repeat_penalty`.
    max_tokens:  the name of the bound where the client used neither; one it used is kept.
    one_bound:   the vendor knows no other name of it, whichever the client used.
    counted_logprobs: a chat's `logprobs` is the number of likely tokens, as in completions.
    base64:      base64 embeddings are float32, as OpenAI's are; elsewhere numbers are asked for.
    stream_usage: `stream_options.include_usage` is understood, and needed.
    completion, embeddings: the task is offered beside chat.
    inputs:      the most texts of one request for embeddings; `None`: no bound is known.
    stop, choices: the most stop strings and choices; `None`: no bound is known.
    ranges:      other bounds, by field.
    thoughts:    the fields of a message in which thinking may come back, the first for what we
                 write; `None`: not known, so it is sent as the client wrote it. Some vendors answer
                 any other with a 400.
    marked:      every stream ends with `[DONE]`; one that does not was cut short.
    aside:       a field of a stream's last frame in which usage or an error may stand.
    sources:     where all this is from.
    """

    name: str
    base_url: str = ""
    unsupported: frozenset[str] = frozenset()
    beyond: frozenset[str] | None = None
    names: Mapping[str, str] = {}
    max_tokens: MaxTokensField = "max_tokens"
    one_bound: bool = False
    counted_logprobs: bool = False
    base64: bool = False
    stream_usage: bool = True
    completion: bool = True
    embeddings: bool = True
    inputs: int | None = None
    stop: int | None = None
    choices: int | None = None
    ranges: Mapping[str, Range] = {}
    marked: bool = False
    aside: str = ""
    thoughts: tuple[str, ...] | None = None
    sources: tuple[Source, ...] = ()

    @property
    def left_out(self) -> frozenset[str]:
        """The fields that are not sent."""
        if self.beyond is None:
            return self.unsupported
        return self.unsupported | (REFERENCE_ONLY - self.beyond)

    @property
    def read_thoughts(self) -> frozenset[ThoughtKind]:
        """See Supports: all that a client hands back, its text, or nothing."""
        if self.thoughts is None:
            return ALL_THOUGHTS
        return READABLE if self.thoughts else frozenset()

    @property
    def translated(self) -> Mapping[Task, Mapping[str, str]]:
        """See Supports; for a task that is not offered there is nothing."""
        named = {field: wire for field, wire in self.names.items() if field != wire}
        chat = {**named}
        if self.max_tokens != "max_tokens":
            chat["max_tokens"] = self.max_tokens
        if self.counted_logprobs:
            chat |= {"logprobs": "logprobs (a number)", "top_logprobs": "logprobs"}
        return {"chat": chat, **({"completion": named} if self.completion else {})}


COMPATIBLE = Vendor(name="openai")
"""Any other server: what it does not know is its own to refuse, so all we can say is sent."""
