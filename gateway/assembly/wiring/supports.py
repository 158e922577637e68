"""What a backend supports: its adapter's capabilities, for its model, with all repair rules."""

from msgspec.structs import replace

from strowger_gateway.adapters.base import Supports
from strowger_gateway.adapters.capabilities import of_model
from strowger_gateway.adapters.client_fields.patterns import allowed
from strowger_gateway.adapters.form_repairs.prompt_cache import MARKS, prompt_cache
from strowger_gateway.adapters.repairs.rule import Repair
from strowger_gateway.adapters.universal_repairs import with_universal
from strowger_gateway.gateway.config.schema.config import Model


def supports_of(known: Supports, model: Model, upstream_model: str) -> Supports:
    """known: of the upstream. model: that clients ask for; upstream_model: that it asks for."""
    supports = of_model(known, upstream_model)
    return replace(supports, repairs=_repairs(model, supports))


def _repairs(model: Model, supports: Supports) -> tuple[Repair, ...]:
    """The rules of a backend; the last marks what it caches, if the operator allows marks."""
    rules = with_universal(supports)
    if supports.cache_marks is None or allowed(MARKS, (), supports.client_fields.deny) is False:
        return rules
    return (*rules, *prompt_cache(model.prompt_cache, supports.cache_marks))
