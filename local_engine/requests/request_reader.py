"""Read a request: its tokens, resolved sampling parameters and stop conditions."""

import secrets
from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from torch import Tensor

from strowger_gateway.local_engine.child_process.messages import Guide
from strowger_gateway.local_engine.child_process.text_encoder import Offload
from strowger_gateway.local_engine.execution.jobs import Beams
from strowger_gateway.local_engine.execution.prompt_tuning import table_rows
from strowger_gateway.local_engine.guided.compiler import GuideCompiler
from strowger_gateway.local_engine.protocol.capabilities import EXTRA, SUPPORTED
from strowger_gateway.local_engine.protocol.tensors import shaped
from strowger_gateway.local_engine.requests.chat_request import NO_CHAT, ChatReader, PreparedChat
from strowger_gateway.local_engine.requests.output_parser import OutputFormat
from strowger_gateway.local_engine.requests.request_limits import refuse_excess, refuse_unfit
from strowger_gateway.local_engine.sampling.sampling_params import RowParams, resolve_params
from strowger_gateway.local_engine.text.text_length import reach_of
from strowger_gateway.local_engine.text.tokenizer import Tokenizer
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.fields import extra_fields, is_neutral, sent_fields, task_of
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    GenerateRequest,
    Prompt,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling

_T = TypeVar("_T")
MAX_BEAMS = 64
COMPLETION_TOKENS = 16
"""OpenAI's default for completions."""


class PreparedRequest(Struct, frozen=True, kw_only=True, eq=False):
    """A request, ready for the engine.

    prompts:  their tokens. echoes: text at the start of each prompt's answers, "" for none.
    params:   with the seed of the first choice.
    max_new:  most tokens per answer; 0: the answer is its echo, and the token that the engine
              draws after the prompt is dropped.
    ends:     the model's end tokens that apply; stops: the client's single stop tokens;
              words: longer stop token sequences; strings: stop strings.
    choices:  answers per prompt; shown: how many of them the client gets, best first.
    logprobs: return log probabilities; if False, they may still be computed for ranking.
    truncate: at the deadline, end the answer instead of failing it.
    as_tokens: return token ids.
    beams:    beam search instead of sampling; `choices` are its best hypotheses.
    guide:    grammar of the answer. output_format: how to parse its text; `None`: unparsed.
    draft, proposal: drafts of the answer's first tokens, and the logits they were drawn from.
    context, generation, prompt_logprobs: as in Job.
    """

    prompts: tuple[tuple[int, ...], ...]
    echoes: tuple[str, ...]
    params: RowParams
    max_new: int
    ends: frozenset[int]
    stops: frozenset[int]
    words: tuple[tuple[int, ...], ...]
    strings: tuple[str, ...]
    choices: int
    shown: int
    logprobs: bool
    priority: int
    timeout_s: float | None
    suffix: str = ""
    truncate: bool = False
    as_tokens: bool = False
    beams: Beams | None = None
    guide: Guide | None = None
    output_format: OutputFormat | None = None
    draft: tuple[int, ...] = ()
    proposal: Tensor | None = None
    context: bool = False
    generation: bool = False
    prompt_logprobs: bool = False

    @property
    def drawn(self) -> int:
        """Most tokens that the engine draws per answer: at least one."""
        return max(self.max_new, 1)


class RequestReader:
    """Reads requests for one model. Safe to call from any thread."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        guides: GuideCompiler,
        *,
        vocabulary: int,
        ends: frozenset[int],
        longest: int,
        max_new: int | None,
        defaults: Sampling,
        hidden: int = 0,
        max_logits_bytes: int = 0,
        holds_calls: bool = False,
    ) -> None:
        """longest: tokens of prompt and answer. max_new: the operator's limit.

        max_logits_bytes: limit for logits in one answer. holds_calls: see ChatReader.
        defaults: the checkpoint's recommendation for parameters that a text request leaves out.
        hidden: width of the model's embeddings, and of the rows of a prompt table.
        """
        self._tokenizer = tokenizer
        self.reach = reach_of(tokenizer.describe(), longest - 1)
        self._chat_reader = ChatReader(tokenizer, guides, self.reach, holds_calls=holds_calls)
        self._vocabulary = vocabulary
        self._ends = ends
        self._longest = longest
        self._ceiling = longest if max_new is None else min(longest, max_new)
        self._defaults = defaults
        self._hidden = hidden
        self._max_logits_bytes = max_logits_bytes

    def read(self, request: GenerateRequest, offload: Offload | None = None) -> PreparedRequest:
        """Read a request. Raises InvalidRequest naming the field. offload: as in TextEncoder."""
        refuse_unsupported(request)
        refuse_excess(request)
        refuse_unfit(request, self.reach)
        sampling = request.sampling
        beams = _beams(sampling)
        if beams is None and not isinstance(request, TokenRequest):
            sampling = _with_defaults(sampling, self._defaults)
        max_new = self._max_new(request, sampling)
        chat = NO_CHAT
        if isinstance(request, ChatRequest):
            chat = self._chat_reader.read(request, offload)
        prompts, echoes = self._prompts(request, max_new, chat, offload)
        choices, shown = _choices(sampling)
        if beams is not None:
            choices = shown = _hypotheses(sampling, beams, tokens=isinstance(request, TokenRequest))
        ends, stops, words = self._ends_of(sampling)
        params = resolve_params(
            sampling,
            vocabulary=self._vocabulary,
            end_ids=tuple(self._ends),
            seed=secrets.randbits(63),
            bad_words=self._bad_words(sampling),
        )
        _refuse_contradiction(params, max_new)
        requested = params.logprobs >= 0
        if choices > shown and not requested:
            params = msgspec.structs.replace(params, logprobs=0)
        prepared = PreparedRequest(
            prompts=prompts,
            echoes=echoes,
            params=params,
            max_new=max_new,
            ends=ends,
            stops=stops,
            words=words,
            strings=_or(sampling.stop, ()),
            choices=choices,
            shown=shown,
            logprobs=requested,
            priority=_priority(request.priority),
            timeout_s=_or(request.timeout_s, None),
            as_tokens=isinstance(request, TokenRequest),
            beams=beams,
            guide=chat.guide,
            output_format=chat.output_format,
        )
        match request:
            case ChatRequest():
                return prepared
            case TokenRequest():
                return self._with_tensors(prepared, request)
            case CompletionRequest():
                return msgspec.structs.replace(
                    prepared,
                    suffix=_or(request.append_suffix, ""),
                    truncate=request.error_behavior == "truncate",
                    prompt_logprobs=requested and _or(request.echo, False),
                )

    def _with_tensors(self, prepared: PreparedRequest, request: TokenRequest) -> PreparedRequest:
        """Add the fields of TensorRT-LLM's requests other than sampling."""
        context = _or(request.return_context_logits, False)
        generation = _or(request.return_generation_logits, False)
        rows = len(prepared.prompts[0]) if context else 0
        rows += prepared.max_new * prepared.choices if generation else 0
        if rows * self._vocabulary * 4 > self._max_logits_bytes:
            field = "return_context_logits" if context else "return_generation_logits"
            raise InvalidRequest(
                f"{field}: {rows} rows of {self._vocabulary} float32 exceed "
                f"max_logits_bytes ({self._max_logits_bytes}); request fewer tokens",
                param=field,
            )
        draft = request.draft
        if draft is UNSET:
            return msgspec.structs.replace(prepared, context=context, generation=generation)
        tokens = self._checked(draft.tokens, "draft_input_ids")
        if prepared.beams is not None:
            raise InvalidRequest(
                "draft_input_ids: beam search does not take drafts; remove them or beam_width",
                param="draft_input_ids",
            )
        shape = (len(tokens), self._vocabulary)
        proposal = None if draft.logits is UNSET else shaped(draft.logits, "draft_logits", shape)
        return msgspec.structs.replace(
            prepared, context=context, generation=generation, draft=tokens, proposal=proposal
        )

    def _prompts(
        self, request: GenerateRequest, max_new: int, chat: PreparedChat, offload: Offload | None
    ) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]:
        match request:
            case ChatRequest():
                return (chat.prompt,), ("",)
            case TokenRequest():
                table = request.prompt_table
                rows = 0 if table is UNSET else table_rows(table, self._hidden)
                return (self._checked(request.tokens, "tokens", rows),), ("",)
            case CompletionRequest():
                room = None
                if request.error_behavior == "truncate":
                    room = self._longest - min(max_new, self._longest // 2)
                prompts = tuple(
                    self._prompt(
                        prompt, place, template=request.template, room=room, offload=offload
                    )
                    for place, prompt in enumerate(request.prompts)
                )
                return prompts, tuple(self._echo(request, p) for p in request.prompts)

    def _prompt(
        self,
        prompt: Prompt,
        place: int,
        *,
        template: bool,
        room: int | None,
        offload: Offload | None,
    ) -> tuple[int, ...]:
        """room: tokens to which a prompt that is too long is cut; `None`: it is rejected."""
        if not isinstance(prompt, str):
            kept = prompt if room is None else prompt[-room:]
            return self._checked(kept, f"prompt[{place}]")
        if template:
            return self._chat_reader.read_question(prompt, offload, room=room)
        most = self.reach.tokens if room is None else room
        ids, count = self._tokenizer.encode_prompt(prompt, most=most, offload=offload)
        if room is None:
            self.reach.refuse_count(count)
        return tuple(ids)

    def _echo(self, request: CompletionRequest, prompt: Prompt) -> str:
        if not _or(request.echo, False):
            return ""
        return prompt if isinstance(prompt, str) else self._tokenizer.decode(list(prompt))

    def _checked(self, tokens: tuple[int, ...], where: str, rows: int = 0) -> tuple[int, ...]:
        """rows: of the prompt table, selected by ids past the vocabulary."""
        end = self._vocabulary + rows
        for place, token in enumerate(tokens):
            if not 0 <= token < end:
                raise InvalidRequest(
                    f"{where}[{place}]: token {token} must be within 0 and {end - 1}",
                    param=where.partition("[")[0],
                )
        return tokens

    def _max_new(self, request: GenerateRequest, sampling: Sampling) -> int:
        requested = sampling.max_tokens
        if requested is UNSET and isinstance(request, CompletionRequest):
            requested = COMPLETION_TOKENS
        if requested is UNSET or requested is None:
            return self._ceiling
        least = 0 if isinstance(request, CompletionRequest) and request.echo is True else 1
        if requested < least:
            raise InvalidRequest(
                f"max_tokens: {requested} must be {least} or more"
                + (
                    " (0 is allowed for a completion with echo: true, to score a prompt)"
                    if least
                    else ""
                ),
                param="max_tokens",
            )
        return min(requested, self._ceiling)

    def _ends_of(
        self, sampling: Sampling
    ) -> tuple[frozenset[int], frozenset[int], tuple[tuple[int, ...], ...]]:
        ends = self._ends
        if sampling.end_id is not UNSET:
            ends = frozenset({sampling.end_id}) if sampling.end_id >= 0 else frozenset[int]()
        if _or(sampling.ignore_eos, False):
            ends = frozenset[int]()
        words = _or(sampling.stop_words, ())
        if any(not word for word in words):
            raise InvalidRequest("stop_words: a word is empty", param="stop_words")
        single = {word[0] for word in words if len(word) == 1}
        stops = frozenset({*_or(sampling.stop_token_ids, ()), *single})
        return ends, stops, tuple(word for word in words if len(word) > 1)

    def _bad_words(self, sampling: Sampling) -> tuple[tuple[int, ...], ...]:
        """Return each string's tokens at the start of a text and after a space."""
        spelt: dict[tuple[int, ...], None] = {}
        for word in _or(sampling.bad_words, ()):
            if not word.strip():
                raise InvalidRequest(
                    "bad_words: a word is blank; send words with text", param="bad_words"
                )
            for text in (word, f" {word.lstrip()}"):
                spelt[tuple(self._tokenizer.encode(text, special=False))] = None
        return tuple(spelt)


def refuse_unsupported(request: GenerateRequest) -> None:
    """Raises InvalidRequest for the first field that the engine does not support."""
    task = task_of(request)
    unknown = sent_fields(request) - (SUPPORTED[task] or frozenset())
    wanted = sorted(field for field in unknown if not is_neutral(request, field))
    for field in (*wanted, *sorted(extra_fields(request) - EXTRA.get(task, frozenset()))):
        raise InvalidRequest(
            f"{field}: not supported by the local engine; remove it or use another model",
            param=field,
        )


def _refuse_contradiction(params: RowParams, max_new: int) -> None:
    if params.min_tokens > max_new:
        raise InvalidRequest(
            f"min_tokens: {params.min_tokens} must be at most max_tokens, {max_new}",
            param="min_tokens",
        )


def _or(value: _T | UnsetType, silent: _T) -> _T:
    return silent if isinstance(value, UnsetType) else value


def _with_defaults(sampling: Sampling, defaults: Sampling) -> Sampling:
    """Fill in defaults. do_sample without a temperature overrides a default temperature of 0."""
    if defaults.temperature == 0.0 and _or(sampling.do_sample, False):
        defaults = msgspec.structs.replace(defaults, temperature=UNSET)
    silent = {
        name: getattr(defaults, name)
        for name in defaults.__struct_fields__
        if getattr(sampling, name) is UNSET and getattr(defaults, name) is not UNSET
    }
    return msgspec.structs.replace(sampling, **silent) if silent else sampling


def _choices(sampling: Sampling) -> tuple[int, int]:
    shown = _or(sampling.n, 1)
    choices = _or(sampling.best_of, shown)
    if shown < 1:
        raise InvalidRequest(f"n: {shown} must be 1 or more", param="n")
    if choices < shown:
        raise InvalidRequest(f"best_of: {choices} must be at least n, {shown}", param="best_of")
    return choices, shown


def _beams(sampling: Sampling) -> Beams | None:
    width = _or(sampling.beam_width, 1)
    if not 1 <= width <= MAX_BEAMS:
        raise InvalidRequest(
            f"beam_width: {width} must be within 1 and {MAX_BEAMS}", param="beam_width"
        )
    if width == 1:
        return None
    filters = ("top_p", 1.0), ("top_k", None), ("min_p", 0.0), ("typical_p", 1.0)
    for name, off in filters:
        value = getattr(sampling, name)
        if value is not UNSET and value not in (off, 0, 1):
            raise InvalidRequest(
                f"{name}: not supported with beam search; remove it or beam_width",
                param=name,
            )
    return Beams(
        width=width,
        length_penalty=_or(sampling.length_penalty, 1.0),
        early_stopping=_or(sampling.early_stopping, False),
    )


def _hypotheses(sampling: Sampling, beams: Beams, *, tokens: bool) -> int:
    """Return how many to show: n, by default 1 for text, all for tokens (as TensorRT-LLM)."""
    if sampling.best_of is not UNSET and sampling.best_of != _or(sampling.n, 1):
        raise InvalidRequest(
            "best_of: beam search ranks its own hypotheses; remove it or beam_width",
            param="best_of",
        )
    shown = _or(sampling.n, beams.width if tokens else 1)
    if not 1 <= shown <= beams.width:
        problem = f"n: {shown} must be within 1 and beam_width, {beams.width}"
        raise InvalidRequest(problem, param="n")
    return shown


def _priority(priority: int | UnsetType) -> int:
    requested = _or(priority, 5)
    if not 1 <= requested <= 5:
        raise InvalidRequest(f"priority: {requested} must be within 1 and 5", param="priority")
    return requested
