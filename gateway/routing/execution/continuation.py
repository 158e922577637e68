"""The request with which a backend continues the answer that another one has begun.

The client's request with the text shown so far: as the beginning of the answer in a chat, in the
form that the backend's dialect documents for it (`Supports.continues`), and behind the prompt of a
completion or of tokens. Some answers cannot be continued by text alone: those of several choices,
with log probabilities, with a grammar (its state is lost) or with anything but text in them.
"""

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from strowger_gateway.gateway.backends.upstream.drawn_tokens import DrawnTokens, ResumesAnswers
from strowger_gateway.gateway.routing.execution.shown_answer import ShownAnswer
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.request_facts import CHARACTERS_PER_TOKEN
from strowger_gateway.schemas.messages import Message, text_of
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    GenerateRequest,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling

GRAMMARS = frozenset(
    {
        "ebnf",
        "grammar",
        "guided_choice",
        "guided_decoding_backend",
        "guided_grammar",
        "guided_json",
        "guided_regex",
        "json_schema",
        "regex",
        "response_format",
        "structural_tag",
        "structured_outputs",
    }
)
"""Fields of model servers that constrain the answer from its first token on."""

BY_ANSWER = frozenset(
    {"echo", "prompt_logprobs", "return_token_ids", "return_tokens_as_token_ids", "use_beam_search"}
)
"""Fields of model servers that ask for more than text, or for the prompt in the answer."""


UNMISTAKABLE = 16
"""Characters of a beginning that an answer starts with by no accident."""


class Continuation(Struct, frozen=True, kw_only=True, eq=False):
    """A candidate with the request that continues the answer.

    begun:   the beginning of the answer that its answer repeats; "" if it does not.
    trimmed: white space that was shown, but not sent.
    resumed: the tokens behind which a local engine goes on; () if it continues text.
    """

    candidate: Candidate
    begun: str = ""
    trimmed: str = ""
    resumed: tuple[int, ...] = ()


def continuable(request: GenerateRequest, shown: ShownAnswer) -> bool:
    """Whether what was shown of the answer could be continued by some backend."""
    if shown.lacking or not request.stream:
        return False
    if several(request) or _beyond_text(request):
        return False
    if not (GRAMMARS | BY_ANSWER).isdisjoint(request.extra):
        return False
    match request:
        case ChatRequest():
            return not _constrained(request)
        case CompletionRequest():
            return not (request.template or request.echo or request.suffix)
        case TokenRequest():
            return True


def resumable(request: GenerateRequest) -> bool:
    """Whether an engine can resume the answer from its tokens: reasoning, calls, grammars as well.

    Not several answers, log probabilities, logits and drafts, whose state is not in the tokens.
    """
    if several(request) or _beyond_text(request):
        return False
    return not isinstance(request, CompletionRequest) or not request.echo


def resumption(candidate: Candidate, drawn: DrawnTokens) -> Continuation | None:
    """The candidate with the request that resumes the answer; `None` if its model is another."""
    upstream = candidate.backend.upstream
    if drawn.request is None or not drawn.ids or not isinstance(upstream, ResumesAnswers):
        return None
    if not drawn.weights or upstream.weights_of(candidate.model) != drawn.weights:
        return None
    resumed = replace(candidate, request=drawn.request)
    return Continuation(candidate=resumed, resumed=tuple(drawn.ids))


def continuation(
    candidate: Candidate, client_request: GenerateRequest, shown: ShownAnswer
) -> Continuation | None:
    """The candidate with the request that continues what was shown; `None` if it cannot.

    client_request: for which `continuable` is true.
    """
    request = candidate.request or client_request
    text = shown.text
    match request:
        case ChatRequest():
            how = candidate.backend.supports.continues
            if how is None or not how.model(candidate.model):
                return None
            begun = text.rstrip() if how.trimmed else text
            whole = _begun(request, begun)
            repeats = how.repeats or (how.may_repeat and len(whole) >= UNMISTAKABLE)
            return Continuation(
                candidate=replace(candidate, request=_chat(request, begun, shown)),
                begun=whole if repeats else "",
                trimmed=text[len(begun) :],
            )
        case CompletionRequest():
            (prompt,) = request.prompts
            if not isinstance(prompt, str):
                return None
            sampling = remaining(request.sampling, shown)
            changed = replace(request, prompts=(prompt + text,), sampling=sampling)
        case TokenRequest():
            sampling = remaining(request.sampling, shown)
            changed = replace(request, tokens=(*request.tokens, *shown.ids), sampling=sampling)
        case _:
            return None
    return Continuation(candidate=replace(candidate, request=changed))


def exhausted(request: GenerateRequest, shown: ShownAnswer) -> bool:
    """Whether the tokens shown are all that the client asked for. Only ids can be counted."""
    most = request.sampling.max_tokens
    return isinstance(most, int) and bool(shown.ids) and len(shown.ids) >= most


def remaining(sampling: Sampling, shown: ShownAnswer) -> Sampling:
    """The sampling for the rest of an answer: fewer tokens, by as many as were produced.

    Of text they can only be estimated: at least one per event, and one per four characters.
    """
    produced = len(shown.ids) or max(shown.produced, round(len(shown.text) / CHARACTERS_PER_TOKEN))
    if isinstance(sampling.max_tokens, int):
        sampling = replace(sampling, max_tokens=max(1, sampling.max_tokens - produced))
    if isinstance(sampling.min_tokens, int):
        sampling = replace(sampling, min_tokens=max(0, sampling.min_tokens - produced))
    return sampling


def several(request: GenerateRequest) -> bool:
    sampling = request.sampling
    counts = (sampling.n or 1, sampling.best_of or 1, sampling.beam_width or 1)
    prompts = len(request.prompts) if isinstance(request, CompletionRequest) else 1
    return max(*counts, prompts) > 1


def _beyond_text(request: GenerateRequest) -> bool:
    """Whether more than text and tokens was asked for."""
    if request.sampling.logprobs or request.sampling.top_logprobs:
        return True
    return isinstance(request, TokenRequest) and bool(
        request.draft or request.return_context_logits or request.return_generation_logits
    )


def _constrained(request: ChatRequest) -> bool:
    """Whether a grammar constrains the answer: a JSON schema, or a tool that has to be called."""
    form, choice = request.response_format, request.tool_choice
    if form is not UNSET and form.type != "text":
        return True
    return choice is not UNSET and choice.mode not in ("none", "auto")


def _chat(request: ChatRequest, begun: str, shown: ShownAnswer) -> ChatRequest:
    """The request with the beginning of its answer as the last message."""
    messages = request.messages
    if not begun:
        return replace(request, sampling=remaining(request.sampling, shown))
    if _begins_answer(request):
        messages = messages[:-1]
    last = Message(role="assistant", content=_begun(request, begun))
    return replace(
        request,
        messages=(*messages, last),
        sampling=remaining(request.sampling, shown),
        begun=True,
    )


def _begun(request: ChatRequest, text: str) -> str:
    """The text behind the beginning of the answer that the client sent, if it sent one."""
    return text_of(request.messages[-1]) + text if _begins_answer(request) else text


def _begins_answer(request: ChatRequest) -> bool:
    """Whether the client's last message is itself the beginning of the answer."""
    if not request.messages or request.messages[-1].role != "assistant":
        return False
    last, original = request.messages[-1], request.original
    if request.begun or (original is not None and original.dialect == "anthropic"):
        return True
    if request.extra.get("continue_final_message") == Raw(b"true"):
        return True
    return isinstance(last.raw, Raw) and b'"prefix"' in bytes(last.raw)
