"""MLflow's deployments client with the annotations that it lacks."""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, cast

import pytest


class Deployments(Protocol):
    """What the tests use of it. Its calls block: run them in a thread."""

    def predict(self, *, endpoint: str, inputs: Mapping[str, object]) -> dict[str, object]: ...
    def predict_stream(
        self, *, endpoint: str, inputs: Mapping[str, object]
    ) -> Iterator[dict[str, object]]: ...
    def list_endpoints(self) -> list[dict[str, object]]: ...
    def get_endpoint(self, endpoint: str) -> dict[str, object]: ...


def deployments(host: str, token: str, patch: pytest.MonkeyPatch) -> Deployments:
    """As a user makes it: the workspace is told by the environment. Its import takes seconds."""
    from mlflow.deployments import (
        get_deploy_client,  # pyright: ignore[reportUnknownVariableType]  # no annotations
    )

    patch.setenv("DATABRICKS_HOST", host)
    patch.setenv("DATABRICKS_TOKEN", token)
    make = cast(Callable[[str], object], get_deploy_client)
    return cast(Deployments, make("databricks"))
