"""Models as serving endpoints: read back by the SDK's own classes."""

import json
from collections.abc import Callable
from typing import cast

import pytest
from databricks.sdk.service.serving import (
    EndpointStateConfigUpdate,
    EndpointStateReady,
    ExternalModelProvider,
    ListEndpointsResponse,
    ServedModelStateDeployment,
    ServingEndpointDetailed,
    ServingEndpointDetailedPermissionLevel,
)
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.surfaces.databricks.serving_endpoints import (
    Deployment,
    ServedEntity,
    ServingEndpoint,
    endpoint_body,
    endpoints_body,
    percentages,
    serving_endpoint,
)
from strowger_gateway.schemas.fields import Task

LOCAL = ServedEntity(
    name="here/tiny", model="tiny", adapter="", weight=2.0, tasks=("chat", "completion")
)
REMOTE = ServedEntity(name="far/m", model="m", adapter="openai", weight=1.0, tasks=("chat",))


def shown(*served: ServedEntity) -> ServingEndpoint:
    return serving_endpoint("chat", served, created=1_700_000_000)


def read(*served: ServedEntity) -> ServingEndpointDetailed:
    return ServingEndpointDetailed.from_dict(json.loads(endpoint_body(shown(*served))))


def written(endpoint: ServingEndpointDetailed) -> dict[str, object]:
    as_dict = cast(Callable[[], dict[str, object]], endpoint.as_dict)  # pyright: ignore[reportUnknownMemberType]  # the SDK says no more than dict
    return as_dict()


def test_the_sdk_reads_every_field_that_is_written() -> None:
    body = json.loads(endpoint_body(shown(LOCAL, REMOTE)))

    endpoint = ServingEndpointDetailed.from_dict(body)

    assert written(endpoint) == {key: value for key, value in body.items() if key != "tags"}
    assert endpoint.creation_timestamp == endpoint.last_updated_timestamp == 1_700_000_000_000
    assert endpoint.permission_level is ServingEndpointDetailedPermissionLevel.CAN_QUERY


def test_a_model_is_an_endpoint_with_its_backends_as_entities() -> None:
    endpoint = read(LOCAL, REMOTE)

    assert endpoint.config is not None
    here, far = endpoint.config.served_entities or []
    assert (here.name, here.entity_name) == ("here/tiny", "tiny")
    assert here.foundation_model is not None
    assert here.external_model is None
    assert here.state is not None
    assert here.state.deployment is ServedModelStateDeployment.DEPLOYMENT_READY
    assert far.external_model is not None
    assert far.external_model.provider is ExternalModelProvider.OPENAI
    assert (far.external_model.name, far.external_model.task) == ("m", "llm/v1/chat")
    assert endpoint.config.traffic_config is not None
    routes = endpoint.config.traffic_config.routes or ()
    assert [(one.served_entity_name, one.traffic_percentage) for one in routes] == [
        ("here/tiny", 67),
        ("far/m", 33),
    ]
    assert {one.served_model_name for one in routes} == {"here/tiny", "far/m"}
    assert endpoint.ai_gateway is not None
    assert endpoint.ai_gateway.fallback_config is not None
    assert endpoint.ai_gateway.fallback_config.enabled


def test_the_list_holds_the_same_endpoints() -> None:
    read = ListEndpointsResponse.from_dict(json.loads(endpoints_body([shown(LOCAL)]))).endpoints

    assert read is not None
    assert [(one.name, one.task) for one in read] == [("chat", "llm/v1/chat")]
    assert ListEndpointsResponse.from_dict(json.loads(endpoints_body([]))).endpoints == []


@pytest.mark.parametrize(
    ("deployments", "ready"),
    [
        (("DEPLOYMENT_READY",), EndpointStateReady.READY),
        (("DEPLOYMENT_FAILED", "DEPLOYMENT_READY"), EndpointStateReady.READY),
        (("DEPLOYMENT_CREATING",), EndpointStateReady.NOT_READY),
        (("DEPLOYMENT_RECOVERING", "DEPLOYMENT_ABORTED"), EndpointStateReady.NOT_READY),
    ],
)
def test_an_endpoint_is_ready_when_someone_can_answer(
    deployments: tuple[Deployment, ...], ready: EndpointStateReady
) -> None:
    served = [
        ServedEntity(name=str(n), model="m", adapter="", weight=1, tasks=("chat",), deployment=one)
        for n, one in enumerate(deployments)
    ]

    state = read(*served).state

    assert state is not None
    assert state.ready is ready
    assert state.config_update is EndpointStateConfigUpdate.NOT_UPDATING


@pytest.mark.parametrize(
    ("tasks", "word"),
    [
        (("chat", "completion", "embeddings"), "llm/v1/chat"),
        (("completion",), "llm/v1/completions"),
        (("embeddings",), "llm/v1/embeddings"),
        (("tokens",), ""),
    ],
)
def test_an_endpoints_task_is_the_most_specific_one(tasks: tuple[Task, ...], word: str) -> None:
    served = ServedEntity(name="a/m", model="m", adapter="other", weight=1, tasks=tasks)

    endpoint = read(served)

    assert endpoint.task == word
    assert endpoint.config is not None
    (entity,) = endpoint.config.served_entities or []
    assert entity.external_model is not None
    assert entity.external_model.provider is ExternalModelProvider.CUSTOM


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        ([1], [100]),
        ([0], [100]),
        ([0, 0], [100, 0]),
        ([1, 1, 1], [34, 33, 33]),
        ([0.29, 0.71], [29, 71]),
        ([1, 999], [0, 100]),
        ([2, 0, 1], [67, 0, 33]),
    ],
)
def test_weights_are_shown_as_percentages(weights: list[float], shares: list[int]) -> None:
    assert percentages(weights) == shares


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=20))
def test_percentages_add_up_and_are_never_off_by_one(weights: list[float]) -> None:
    shares = percentages(weights)

    assert sum(shares) == 100
    assert all(0 <= share <= 100 for share in shares)
    if total := sum(weights):
        for weight, share in zip(weights, shares, strict=True):
            assert abs(weight / total * 100 - share) < 1 + 1e-9
            assert weight or not share
