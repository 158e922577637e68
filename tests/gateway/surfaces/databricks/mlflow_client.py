"""MLflow's deployments client with type annotations."""

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
    """Built as by a user: the environment names the workspace. Its import takes seconds."""
    from mlflow.deployments import (
        get_deploy_client,  # pyright: ignore[reportUnknownVariableType]  # no annotations
    )

    patch.setenv("DATABRICKS_HOST", host)
    patch.setenv("DATABRICKS_TOKEN", token)
    make = cast(Callable[[str], object], get_deploy_client)
    return cast(Deployments, make("databricks"))
