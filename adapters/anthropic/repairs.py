"""Repair rules of Anthropic's Messages API, also on Vertex AI."""

from typing import Final

from strowger_gateway.adapters.anthropic.claude_models import has_later_system, may_be_claude
from strowger_gateway.adapters.anthropic.cloud_betas import VERTEX_BETAS, VERTEX_SOURCE
from strowger_gateway.adapters.anthropic.sampling_repairs import SAMPLING_REPAIRS
from strowger_gateway.adapters.anthropic.thinking_repairs import THINKING_REPAIRS
from strowger_gateway.adapters.anthropic.turn_repairs import MARKED_THINKING, TURN_REPAIRS
from strowger_gateway.adapters.form_repairs.cache_limits import CACHE_LIMITS, CACHE_MEMBERS
from strowger_gateway.adapters.form_repairs.image_types import image_types
from strowger_gateway.adapters.form_repairs.service_tiers import service_tiers
from strowger_gateway.adapters.form_repairs.user_data import private_user, user_limit
from strowger_gateway.adapters.repairs.betas import betas
from strowger_gateway.adapters.repairs.call_ids import call_ids
from strowger_gateway.adapters.repairs.closed_schemas import closed_schemas
from strowger_gateway.adapters.repairs.hints import IMAGE_DETAIL, MESSAGE_NAMES
from strowger_gateway.adapters.repairs.roles import later_system
from strowger_gateway.adapters.repairs.stops import blank_stops
from strowger_gateway.adapters.repairs.thoughts import own_thoughts
from strowger_gateway.adapters.repairs.tool_names import tool_names
from strowger_gateway.adapters.repairs.tools_from_history import tools_from_history
from strowger_gateway.adapters.tool_repairs.named_tools import named_tools
from strowger_gateway.adapters.tool_repairs.one_form import one_form
from strowger_gateway.adapters.tool_repairs.tool_members import unknown_members
from strowger_gateway.adapters.web_search.citations import FOREIGN_CITATIONS
from strowger_gateway.adapters.web_search.rules import web_search, web_search_options
from strowger_gateway.adapters.web_search.targets import ANTHROPIC
from strowger_gateway.schemas.messages import CLAUDE

STRUCTURED: Final = (
    "https://platform.claude.com/docs/en/build-with-claude/structured-outputs"
    "#json-schema-limitations"
)

_SYSTEM: Final = "https://docs.anthropic.com/en/api/messages#body-system"

ANTHROPIC_REPAIRS: Final = (
    web_search_options(ANTHROPIC),
    *web_search(ANTHROPIC),
    FOREIGN_CITATIONS,
    named_tools(searches=True),
    later_system(_SYSTEM, takes_placed=has_later_system),
    own_thoughts(
        "https://github.com/anthropics/anthropic-sdk-python/issues/1598",
        lambda _: (CLAUDE,),
        checks=may_be_claude,
    ),
    *THINKING_REPAIRS,
    *SAMPLING_REPAIRS,
    MARKED_THINKING,
    *TURN_REPAIRS,
    blank_stops("https://github.com/BerriAI/litellm/issues/3286"),
    service_tiers(
        "https://docs.claude.com/en/api/service-tiers",
        dict.fromkeys(("auto", "default", "standard"), ""),
    ),
    MESSAGE_NAMES,
    IMAGE_DETAIL,
    image_types("https://github.com/BerriAI/litellm/issues/24900"),
    *CACHE_LIMITS,
    private_user("https://github.com/BerriAI/litellm/issues/10106"),
    user_limit("https://docs.anthropic.com/en/api/messages#body-metadata-user-id", 256),
    call_ids("https://github.com/anomalyco/opencode/issues/2214", "[a-zA-Z0-9_-]{1,256}"),
    tools_from_history("https://github.com/anthropics/anthropic-sdk-python/issues/494"),
    tool_names(
        "https://docs.anthropic.com/en/api/messages#body-tools-name", "[A-Za-z0-9_-]{1,128}"
    ),
    one_form("https://github.com/anthropics/claude-code/issues/5319"),
    *closed_schemas(STRUCTURED),
)
"""In the order in which they run."""

VERTEX_REPAIRS: Final = (
    later_system(_SYSTEM),
    *(one for one in ANTHROPIC_REPAIRS if one.name != "later_system"),
    CACHE_MEMBERS,
    betas(VERTEX_SOURCE, VERTEX_BETAS),
    unknown_members("https://github.com/BerriAI/litellm/issues/23825", "eager_input_streaming"),
)
"""Of Vertex AI, which refuses betas and members of a mark that it does not know, and has no later
system messages (https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages)."""
