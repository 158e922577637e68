"""The ways in which a vendor of the OpenAI dialect can differ from OpenAI."""

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

from strowger_gateway.adapters.base import ALL_THOUGHTS, READABLE, Range
from strowger_gateway.adapters.openai.model_families import is_claude, no_model
from strowger_gateway.adapters.openai.repairs import COMPATIBLE_REPAIRS, server_repairs
from strowger_gateway.adapters.openai.thought_blocks import DETAILS
from strowger_gateway.adapters.repairs.rule import Repair
from strowger_gateway.adapters.tasks import moderate, rerank
from strowger_gateway.adapters.tasks.form import AnyTaskForm
from strowger_gateway.adapters.tasks.score import score_by
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.messages import ThoughtKind

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
"""Fields that our OpenAI surface accepts beyond OpenAI's reference."""

COMPLETIONS_ONLY = frozenset({"best_of"})
"""Fields that the reference has only for completions; other servers accept them for chat too."""


class Source(Struct, frozen=True, kw_only=True):
    """The source of a row. edition: a version, else the month in which it was read."""

    url: str
    edition: str


class VendorProfile(Struct, frozen=True, kw_only=True):
    """One row. The defaults are those of a server about which nothing is known.

    name:        what `adapter:` in the configuration says.
    base_url:    used where the configuration gives none; of local servers, their own default.
    unsupported: fields that the vendor documents as refused or ignored, or that its published
                 request does not have; by schemas/fields.py.
    extra_fields: of `REFERENCE_ONLY`, what the vendor reads; `None`: unknown, so all is sent.
    names:       our fields by the vendor's name, such as `repeat_penalty`: of sampling, and
                 `dimensions` of embeddings.
    max_tokens:  the name of the limit if the client used neither; a name it used is kept.
    single_max_tokens_field: the vendor knows only this name, whichever the client used.
    counted_logprobs: a chat's `logprobs` is the number of likely tokens, as in completions.
    base64:      base64 embeddings are float32, as OpenAI's are; otherwise numbers are requested.
    stream_usage: `stream_options.include_usage` is understood, and needed.
    chat, completion, embeddings: the task is offered.
    inputs:      the most texts in one embeddings request; `None`: no limit is known.
    stop, choices: the most stop strings and choices; `None`: no limit is known.
    ranges:      other limits, by field.
    thoughts:    the message fields in which reasoning may be sent back, the first for what we
                 write; `None`: unknown, so it is sent as the client wrote it. Some vendors answer
                 any other with a 400. `reasoning_details` have proofs too.
    marked:      every stream ends with `[DONE]`; one without it and without usage was cut short.
    prefix_path: where a last message with `prefix: true` is continued; "": nowhere.
    count_path:  where it counts the tokens of a chat; "": nowhere.
    trailer_field: a field of a stream's last frame that may hold usage or an error.
    cites_pages: its text has numbers of pages, which are in a list of their own.
    repairs:     rules for requests that the vendor would refuse.
    cache_marks: whether it reads Anthropic's marks of prompt caches, by the model.
    tasks:       how it offers those of `schemas/tasks`.
    sources:     where all this is from.
    """

    name: str
    base_url: str = ""
    unsupported: frozenset[str] = frozenset()
    extra_fields: frozenset[str] | None = None
    names: Mapping[str, str] = {}
    max_tokens: MaxTokensField = "max_tokens"
    single_max_tokens_field: bool = False
    counted_logprobs: bool = False
    base64: bool = False
    stream_usage: bool = True
    chat: bool = True
    completion: bool = True
    embeddings: bool = True
    inputs: int | None = None
    stop: int | None = None
    choices: int | None = None
    ranges: Mapping[str, Range] = {}
    marked: bool = False
    prefix_path: str = ""
    count_path: str = ""
    trailer_field: str = ""
    cites_pages: bool = False
    thoughts: tuple[str, ...] | None = None
    repairs: tuple[Repair, ...] = server_repairs()
    cache_marks: Callable[[str], bool] = no_model
    tasks: tuple[AnyTaskForm, ...] = ()
    sources: tuple[Source, ...] = ()

    @property
    def omitted_fields(self) -> frozenset[str]:
        """Return the fields that are never sent."""
        if self.extra_fields is None:
            return self.unsupported
        return self.unsupported | (REFERENCE_ONLY - self.extra_fields)

    @property
    def read_thoughts(self) -> frozenset[ThoughtKind]:
        """See Supports: all reasoning that a client sends back, only its text, or none."""
        if self.thoughts is None:
            return ALL_THOUGHTS
        if DETAILS in self.thoughts:
            return ALL_THOUGHTS
        return READABLE if self.thoughts else frozenset()

    @property
    def claude_marks(self) -> Callable[[str], bool] | None:
        """See Supports.cache_marks: what a client does not mark is marked at known vendors."""
        known = self.cache_marks is not no_model and self.name != COMPATIBLE.name
        return is_claude if known else None

    @property
    def translated(self) -> Mapping[Task, Mapping[str, str]]:
        """See Supports; tasks that are not offered are absent."""
        renamed = {field: wire for field, wire in self.names.items() if field != wire}
        vectors = {field: wire for field, wire in renamed.items() if field == "dimensions"}
        named = {field: wire for field, wire in renamed.items() if field not in vectors}
        chat = {**named}
        if self.max_tokens != "max_tokens":
            chat["max_tokens"] = self.max_tokens
        if self.counted_logprobs:
            chat |= {"logprobs": "logprobs (a number)", "top_logprobs": "logprobs"}
        offered: dict[Task, tuple[bool, Mapping[str, str]]] = {
            "chat": (self.chat, chat),
            "completion": (self.completion, named),
            "embeddings": (self.embeddings and bool(vectors), vectors),
        }
        return {task: fields for task, (given, fields) in offered.items() if given}


COMPATIBLE = VendorProfile(
    name="openai",
    repairs=COMPATIBLE_REPAIRS,
    cache_marks=is_claude,
    tasks=(rerank.COMPATIBLE, score_by(rerank.COMPATIBLE), moderate.OPENAI),
)
"""Any other server: every field is sent, and the server rejects what it does not know."""
