"""Models as Databricks' serving endpoints: entities, their traffic shares, and their state.

https://docs.databricks.com/api/workspace/servingendpoints/get
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType

from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.fields import Task

Deployment = Literal[
    "DEPLOYMENT_READY",
    "DEPLOYMENT_CREATING",
    "DEPLOYMENT_RECOVERING",
    "DEPLOYMENT_FAILED",
    "DEPLOYMENT_ABORTED",
]

TASKS: Final[dict[Task, str]] = {
    "chat": "llm/v1/chat",
    "completion": "llm/v1/completions",
    "embeddings": "llm/v1/embeddings",
}
"""A task's name in this API, the most specific first; tokens in, tokens out has none."""

PROVIDERS: Final[dict[str, str]] = {
    "databricks": "databricks-model-serving",
    "openai": "openai",
}
"""Our adapters -> the providers that the service's clients know; all others are `custom`."""


class ServedEntity(Struct, frozen=True, kw_only=True):
    """One backend of a model.

    name:    PROVIDER/MODEL. model: the provider's own name for it.
    adapter: the provider's adapter; "" for a local engine.
    weight:  its share of first attempts, in any unit.
    tasks:   the tasks it supports. message: its state, for humans.
    """

    name: str
    model: str
    adapter: str
    weight: float
    tasks: tuple[Task, ...]
    deployment: Deployment = "DEPLOYMENT_READY"
    message: str = ""


class _EntityState(Struct, frozen=True, kw_only=True):
    deployment: Deployment
    deployment_state_message: str


class _External(Struct, frozen=True, kw_only=True):
    name: str
    provider: str
    task: str


class _Foundation(Struct, frozen=True, kw_only=True):
    name: str
    display_name: str


class _Entity(Struct, frozen=True, kw_only=True):
    name: str
    entity_name: str
    entity_version: str = "1"
    state: _EntityState
    creation_timestamp: int
    external_model: _External | UnsetType = UNSET
    foundation_model: _Foundation | UnsetType = UNSET


class _Route(Struct, frozen=True, kw_only=True):
    served_entity_name: str
    served_model_name: str
    traffic_percentage: int


class _Traffic(Struct, frozen=True, kw_only=True):
    routes: list[_Route]


class _Config(Struct, frozen=True, kw_only=True):
    served_entities: list[_Entity]
    traffic_config: _Traffic
    config_version: int = 1


class _State(Struct, frozen=True, kw_only=True):
    ready: Literal["READY", "NOT_READY"]
    config_update: Literal["NOT_UPDATING"] = "NOT_UPDATING"


class _Fallback(Struct, frozen=True, kw_only=True):
    enabled: bool


class _AiGateway(Struct, frozen=True, kw_only=True):
    fallback_config: _Fallback


class ServingEndpoint(Struct, frozen=True, kw_only=True):
    """Timestamps are Unix milliseconds."""

    name: str
    id: str
    creator: str = "strowger"
    creation_timestamp: int
    last_updated_timestamp: int
    state: _State
    config: _Config
    ai_gateway: _AiGateway
    task: str
    permission_level: Literal["CAN_QUERY"] = "CAN_QUERY"
    route_optimized: bool = False
    tags: tuple[()] = ()


class ServingEndpointList(Struct, frozen=True, kw_only=True):
    """The models that the key may use."""

    endpoints: list[ServingEndpoint]


def serving_endpoint(name: str, served: Sequence[ServedEntity], *, created: int) -> ServingEndpoint:
    """Return a model under one of its names.

    served: its backends, at least one, without duplicates. created: Unix seconds.
    """
    tasks = {task for one in served for task in one.tasks}
    task = next((word for task, word in TASKS.items() if task in tasks), "")
    shares = percentages([one.weight for one in served])
    routes = [
        _Route(served_entity_name=one.name, served_model_name=one.name, traffic_percentage=share)
        for one, share in zip(served, shares, strict=True)
    ]
    ready = any(one.deployment == "DEPLOYMENT_READY" for one in served)
    return ServingEndpoint(
        name=name,
        id=sha256(name.encode()).hexdigest()[:32],
        creation_timestamp=created * 1000,
        last_updated_timestamp=created * 1000,
        state=_State(ready="READY" if ready else "NOT_READY"),
        config=_Config(
            served_entities=[_entity(one, task, created) for one in served],
            traffic_config=_Traffic(routes=routes),
        ),
        ai_gateway=_AiGateway(fallback_config=_Fallback(enabled=len(served) > 1)),
        task=task,
    )


def endpoint_body(endpoint: ServingEndpoint) -> bytes:
    """`GET /api/2.0/serving-endpoints/{name}`."""
    return encode(endpoint)


def endpoints_body(endpoints: Sequence[ServingEndpoint]) -> bytes:
    """`GET /api/2.0/serving-endpoints`."""
    return encode(ServingEndpointList(endpoints=list(endpoints)))


def percentages(weights: Sequence[float]) -> list[int]:
    """Return integers that add up to 100, each less than 1 off its share (largest remainders).

    weights: at least one, none negative; if all are 0 the first gets everything.
    """
    total = sum(weights)
    if total <= 0:
        return [100, *(0 for _ in weights[1:])]
    exact = [weight / total * 100 for weight in weights]
    shares = [int(share) for share in exact]
    places = sorted(range(len(exact)), key=lambda place: shares[place] - exact[place])
    for place in places[: 100 - sum(shares)]:
        shares[place] += 1
    return shares


def _entity(served: ServedEntity, task: str, created: int) -> _Entity:
    external: _External | UnsetType = UNSET
    foundation: _Foundation | UnsetType = UNSET
    if served.adapter:
        provider = PROVIDERS.get(served.adapter, "custom")
        external = _External(name=served.model, provider=provider, task=task)
    else:
        foundation = _Foundation(name=served.model, display_name=served.model)
    return _Entity(
        name=served.name,
        entity_name=served.model,
        state=_EntityState(deployment=served.deployment, deployment_state_message=served.message),
        creation_timestamp=created * 1000,
        external_model=external,
        foundation_model=foundation,
    )
