"""Headers for an endpoint picker: the session, sender and urgency of a request.

The pickers of the Gateway API Inference Extension choose a pod for each request
(https://llm-d.ai/docs/api-reference/epp-http-headers).
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.units import Name

PoolUnit = Annotated[
    str,
    Meta(
        pattern=r"^(caller|api_key|team|user|session|header:[A-Za-z0-9-]+)$",
        description="caller, api_key, team, user, session or header:NAME",
    ),
]
ObjectiveBy = Annotated[
    str,
    Meta(
        pattern=r"^(priority|caller|api_key|team|header:[A-Za-z0-9-]+)$",
        description="priority, caller, api_key, team or header:NAME",
    ),
]
ObjectiveName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$",
        description="an InferenceObjective's name (up to 253 lower-case letters, digits, - and .)",
    ),
]


class PoolObjective(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which InferenceObjective applies to a request.

    by: what decides. names: objectives by its value; otherwise: for all other values.
    """

    by: ObjectiveBy = "priority"
    names: Mapping[str, ObjectiveName] = {}
    otherwise: ObjectiveName | None = None


class InferencePool(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the picker receives; `None`: not sent.

    prefix:   of the names of the headers for fairness and objective.
    session:  what requests that should reach the same pod have in common.
    session_header: the name that the picker is configured with.
    fairness: what shares the pool's capacity fairly.
    """

    prefix: Literal["x-gateway-inference", "x-llm-d-inference"] = "x-gateway-inference"
    session: PoolUnit | None = None
    session_header: Name = "x-session-token"
    fairness: PoolUnit | None = None
    objective: PoolObjective | None = None
