"""Repair rules of the OpenAI dialect, by the kind of server."""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from strowger_gateway.adapters.form_repairs.answer_fields import (
    ANSWERS,
    GATEWAYS,
    OF_CALLS,
    REFUSAL,
    AnswerFields,
    answer_fields,
)
from strowger_gateway.adapters.form_repairs.arguments import blank_arguments, call_arguments
from strowger_gateway.adapters.form_repairs.cache_marks import no_cache_marks
from strowger_gateway.adapters.form_repairs.message_names import message_names
from strowger_gateway.adapters.form_repairs.part_forms import FILES, IMAGE_ADDRESS
from strowger_gateway.adapters.form_repairs.presence import blank_text, no_prefill
from strowger_gateway.adapters.form_repairs.schema_names import SCHEMA_NAME
from strowger_gateway.adapters.form_repairs.silent_turns import SILENT_TURNS
from strowger_gateway.adapters.form_repairs.strict_schemas import strict_schemas
from strowger_gateway.adapters.form_repairs.turn_order import MISTRAL_ORDER
from strowger_gateway.adapters.form_repairs.user_data import metadata_limits, user_limit
from strowger_gateway.adapters.model_limits.proofs import FOREIGN_PROOFS
from strowger_gateway.adapters.model_limits.vendors import GPT_OSS_EFFORT
from strowger_gateway.adapters.openai.model_families import (
    is_claude,
    is_gemini,
    is_openais,
    refuses_max_tokens,
    takes_no_prefill,
)
from strowger_gateway.adapters.openai.model_repairs import CHAT_MODEL_REPAIRS, JSON_WORD
from strowger_gateway.adapters.repairs.call_ids import call_ids
from strowger_gateway.adapters.repairs.private_fields import private_fields
from strowger_gateway.adapters.repairs.roles import DEVELOPER_ROLE, QWEN_SYSTEM
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired, every_model
from strowger_gateway.adapters.repairs.thoughts import own_thoughts
from strowger_gateway.adapters.tool_repairs.named_tools import NAMED_TOOLS
from strowger_gateway.adapters.tool_repairs.one_form import one_form
from strowger_gateway.adapters.tool_repairs.tool_media import TEXT_RESULTS
from strowger_gateway.adapters.web_search.rules import no_web_search
from strowger_gateway.schemas.content_facts import OLD_LIMIT, has_old_limit
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, Request
from strowger_gateway.schemas.sampling import Sampling


def _renamed_limit(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or not has_old_limit(request):
        return None
    return Repaired(
        request=replace(request, max_tokens_field="max_completion_tokens"),
        changed=("max_tokens",) if request.max_tokens_field == "max_tokens" else (),
    )


def _is_others(model: str) -> bool:
    return not is_openais(model)


def _new_limit(models: Callable[[str], bool]) -> Repair:
    return Repair(
        name="max_completion_tokens",
        about="sends the limit under the name that newer models of OpenAI require",
        source="https://github.com/CherryHQ/cherry-studio/issues/18765",
        facts=OLD_LIMIT,
        apply=_renamed_limit,
        example=ChatRequest(
            "m",
            (Message(role="user", content="Hello"),),
            Sampling(max_tokens=50),
            max_tokens_field="max_tokens",
        ),
        models=models,
        light=True,
    )


_CACHE_DOCS: Final = "https://platform.openai.com/docs/guides/prompt-caching"
_PRIVATE: Final = ("prompt_cache_key", "safety_identifier")

PRIVATE_VALUES: Final = private_fields(_CACHE_DOCS, *_PRIVATE)
"""OpenAI's fields that name a cache, or the client's own user, in the operator's account."""

CALL_IDS: Final = call_ids("https://github.com/dyad-sh/dyad/issues/4304", r".{1,40}")
"""Older models take 40 characters, newer ones 64."""

DIALECT_REPAIRS: Final = (TEXT_RESULTS, FILES, IMAGE_ADDRESS, SCHEMA_NAME, SILENT_TURNS)
"""Every server of the dialect."""

_MESSAGE: Final = "https://platform.openai.com/docs/api-reference/chat/create#chat-create-messages"
_ANSWER_FIELDS: Final = answer_fields(_MESSAGE)
_OPENAIS: Final = AnswerFields(messages=ANSWERS - {REFUSAL})


def _of_unknown(model: str) -> AnswerFields:
    """Return what an unknown server certainly does not read: another gateway may read the rest."""
    if is_openais(model):
        return _OPENAIS
    kept = frozenset[str]() if is_gemini(model) else frozenset({"extra_content"})
    return AnswerFields(messages=GATEWAYS, calls=kept)


def _of_openrouter(model: str) -> AnswerFields:
    """Return what OpenRouter does not read: Gemini's proofs of calls it has in another place."""
    kept = frozenset({"extra_content"} if is_gemini(model) else ())
    return AnswerFields(messages=_OPENROUTERS, calls=OF_CALLS - kept)


_OPENROUTERS: Final = ANSWERS - {"annotations", "images", "model"}

OPENROUTERS_FIELDS: Final = answer_fields(
    "https://openrouter.ai/docs/api/api-reference/chat", of=_of_openrouter
)

_CLAUDE: Final = (
    blank_text("https://github.com/vercel/ai/issues/14612", with_calls=True),
    replace(
        call_ids("https://github.com/tailcallhq/forgecode/issues/1142", "[a-zA-Z0-9_-]{1,64}"),
        name="claude_call_id",
    ),
)
_BEHIND: Final = tuple(
    [replace(rule, models=is_claude, example_model="claude-sonnet-4-5") for rule in _CLAUDE]
)
"""Of a server that passes conversations on to Claude, among others."""

_PREFILL: Final = no_prefill(
    "https://github.com/anomalyco/models.dev/pull/4922", takes_no_prefill, "google/gemini-3.7-flash"
)

_ARGUMENTS: Final = call_arguments("https://github.com/vllm-project/vllm/issues/43995")
_BLANK_ARGUMENTS: Final = blank_arguments(
    "https://github.com/aws-samples/bedrock-access-gateway/issues/258"
)
"""Chat templates read the arguments of earlier calls."""

_USER_LIMIT: Final = "https://github.com/looplj/axonhub/issues/1669"
_METADATA: Final = "https://platform.openai.com/docs/api-reference/chat/create#chat-create-metadata"
_NAME: Final = "https://github.com/microsoft/autogen/issues/4157"
_STRICT: Final = "https://platform.openai.com/docs/guides/structured-outputs#supported-schemas"

_FORMS: Final = (
    one_form("https://github.com/langchain-ai/langchainjs/issues/9804"),
    message_names(_NAME),
)
OPENAIS_FORMS: Final = tuple(
    [replace(rule, models=is_openais, example_model="gpt-4.1") for rule in _FORMS]
)
"""Of a server that passes names and functions on to OpenAI's models, among others."""

LIMITS: Final = (
    *_FORMS,
    user_limit(_USER_LIMIT, 64),
    metadata_limits(_METADATA),
    *strict_schemas(_STRICT),
)
"""OpenAI's limits of names, of metadata and of schemas."""

OPENAI_REPAIRS: Final = (
    no_web_search(own=False),
    *DIALECT_REPAIRS,
    *LIMITS,
    answer_fields(_MESSAGE, (REFUSAL,)),
    no_cache_marks(_CACHE_DOCS),
    CALL_IDS,
    _BLANK_ARGUMENTS,
    _new_limit(every_model),
    PRIVATE_VALUES,
    *[
        replace(rule, models=every_model) if rule.name == JSON_WORD else rule
        for rule in CHAT_MODEL_REPAIRS
    ],
)
"""OpenAI's own servers and Azure's, where every model takes the newer name."""

COMPATIBLE_REPAIRS: Final = (
    replace(no_web_search(own=False), models=is_openais, example_model="gpt-4.1"),
    replace(no_web_search(own=True), models=_is_others),
    *DIALECT_REPAIRS,
    *[replace(rule, models=is_openais, example_model="gpt-4.1") for rule in LIMITS],
    answer_fields(_MESSAGE, of=_of_unknown),
    own_thoughts(_MESSAGE, lambda _: (), models=is_openais),
    no_cache_marks(_CACHE_DOCS, models=is_openais),
    CALL_IDS,
    replace(DEVELOPER_ROLE, models=_is_others),
    *QWEN_SYSTEM,
    replace(_ARGUMENTS, models=_is_others),
    replace(_BLANK_ARGUMENTS, models=is_openais, example_model="gpt-4.1"),
    replace(NAMED_TOOLS, models=is_openais, example_model="gpt-4.1"),
    _PREFILL,
    *_BEHIND,
    _new_limit(refuses_max_tokens),
    private_fields(_CACHE_DOCS, *_PRIVATE, models=is_openais),
    *CHAT_MODEL_REPAIRS,
    MISTRAL_ORDER,
)
"""A server about which nothing is known: it may be a proxy in front of OpenAI."""

_CACHES_ITSELF: Final = no_cache_marks(
    "https://platform.claude.com/docs/en/build-with-claude/prompt-caching"
)

MARKED_REPAIRS: Final = (
    *DIALECT_REPAIRS,
    DEVELOPER_ROLE,
    *QWEN_SYSTEM,
    FOREIGN_PROOFS,
    GPT_OSS_EFFORT,
    _ANSWER_FIELDS,
    _ARGUMENTS,
    _PREFILL,
    *_BEHIND,
)
"""A server that reads marks of prompt caches."""

SERVER_REPAIRS: Final = (*MARKED_REPAIRS, _CACHES_ITSELF)
"""Every other server but OpenAI's and Azure's."""


def server_repairs(*more: Repair, marks: bool = False) -> tuple[Repair, ...]:
    """Return the rules of a server with some of its own.

    marks: it reads marks of prompt caches. more: rules of its own; one of the name of a common rule
    replaces that.
    """
    common = MARKED_REPAIRS if marks else SERVER_REPAIRS
    names = {rule.name for rule in more}
    last = () if MISTRAL_ORDER.name in names else (MISTRAL_ORDER,)
    return (*[rule for rule in common if rule.name not in names], *more, *last)
