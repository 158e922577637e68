"""The capabilities of a provider whose tokenizer translates for it."""

from typing import Literal

import msgspec
from msgspec import Struct

from strowger_gateway.adapters.base import EVERY_MODEL, READABLE, Continues, Supports
from strowger_gateway.adapters.client_fields.carried import Rendered
from strowger_gateway.schemas.fields import SAMPLING

TranslationPath = Literal["own", "ids", "text", "tokens"]
"""How a task reaches the backend: as it is, as a completion of token ids or of text, or as tokens.

A completion of ids is preferred, because the backend then does both steps that are not exact in
text: no text is tokenized twice, and the backend writes the answer's text itself.
"""

PROMPT_IDS = "prompt.tokens"
INPUT_IDS = "input.tokens"

_SAMPLING = frozenset(SAMPLING)


class TranslationPaths(Struct, frozen=True, kw_only=True):
    """`None`: the task is not available."""

    chat: TranslationPath | None
    completion: TranslationPath | None
    tokens: TranslationPath | None


def translation_paths(supports: Supports, *, template: bool, faithful: bool) -> TranslationPaths:
    """template: the model has one. faithful: its tokenizer can reproduce what it reads."""
    completion: TranslationPath | None = None
    if supports.completion is not None:
        completion = "ids" if PROMPT_IDS in supports.completion else "text"
    tokens: TranslationPath | None = None if supports.tokens is None else "tokens"
    bare = "ids" if completion == "ids" else tokens or completion
    return TranslationPaths(
        chat=bare if supports.chat is None and template else _own(supports.chat),
        completion=_own(supports.completion) or tokens,
        tokens=_own(supports.tokens) or (completion if faithful else None),
    )


def extend_capabilities(supports: Supports, ways: TranslationPaths, *, template: bool) -> Supports:
    """Return `supports` with the tasks that can be translated."""
    own_completion = supports.completion or frozenset()
    completion_sampling = own_completion & _SAMPLING
    token_sampling = (supports.tokens or frozenset()) & _SAMPLING
    wrapped = frozenset({"template"} if template else ())
    chat, completion, tokens = supports.chat, supports.completion, supports.tokens
    embeddings = supports.embeddings
    match ways.chat:
        case "ids" | "text":
            chat = completion_sampling | (own_completion & {"user", "priority"})
        case "tokens":
            chat = token_sampling | (supports.tokens or frozenset()) & {"priority"}
        case _:
            pass
    if ways.completion == "own":
        completion = own_completion | wrapped | {PROMPT_IDS}
    elif ways.completion == "tokens":
        priority = (supports.tokens or frozenset()) & {"priority"}
        completion = token_sampling | wrapped | priority | {PROMPT_IDS}
    if ways.tokens in ("ids", "text"):
        tokens = completion_sampling | (own_completion & {"priority"})
    if embeddings is not None:
        embeddings |= {INPUT_IDS}
    own = ways.chat in ("own", None)
    return msgspec.structs.replace(
        supports,
        chat=chat,
        thoughts=supports.thoughts if own else READABLE,
        completion=completion,
        tokens=tokens,
        embeddings=embeddings,
        text_of_tokens=True,
        carries=supports.carries if own else Rendered(supports.carries),
        continues=supports.continues if own else Continues(model=EVERY_MODEL),
    )


def _own(fields: frozenset[str] | None) -> TranslationPath | None:
    return None if fields is None else "own"
