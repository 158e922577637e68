"""Repair rules of Mistral's API."""

from typing import Final

from strowger_gateway.adapters.form_repairs.answer_fields import AnswerFields, answer_fields
from strowger_gateway.adapters.form_repairs.presence import no_prefill
from strowger_gateway.adapters.form_repairs.service_tiers import service_tiers
from strowger_gateway.adapters.form_repairs.silent_turns import blank_turns
from strowger_gateway.adapters.form_repairs.turn_order import answer_after_result
from strowger_gateway.adapters.model_limits.proofs import foreign_proofs
from strowger_gateway.adapters.model_limits.vendors import MISTRAL_EFFORT
from strowger_gateway.adapters.openai.repairs import server_repairs
from strowger_gateway.adapters.repairs.call_ids import call_ids
from strowger_gateway.adapters.repairs.hints import MESSAGE_NAMES
from strowger_gateway.adapters.repairs.private_fields import private_fields
from strowger_gateway.adapters.repairs.roles import later_system
from strowger_gateway.adapters.repairs.rule import every_model
from strowger_gateway.schemas.messages import MISTRAL

_VALIDATOR: Final = (
    "https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/protocol/instruct/"
    "validator.py"
)
_STANDARD: Final = {"default": "standard_only", "standard": "standard_only"}

MISTRAL_REPAIRS: Final = server_repairs(
    answer_fields(
        "https://docs.mistral.ai/api/",
        of=lambda _: AnswerFields(parts=frozenset({"reference"})),
    ),
    foreign_proofs(lambda format, _: format == MISTRAL),
    MESSAGE_NAMES,
    MISTRAL_EFFORT,
    blank_turns(_VALIDATOR),
    no_prefill(_VALIDATOR, every_model, "mistral-large-latest"),
    later_system("https://github.com/mistralai/mistral-common"),
    call_ids("https://github.com/anomalyco/opencode/issues/1680", "[a-zA-Z0-9]{9}", 9),
    service_tiers("https://docs.mistral.ai/api/", _STANDARD),
    private_fields("https://docs.mistral.ai/api/", "prompt_cache_key"),
    answer_after_result("https://github.com/datapizza-labs/datapizza-ai/issues/98"),
)
"""In the order in which they run."""
