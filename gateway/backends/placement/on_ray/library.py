"""The part of Ray's API that is used, typed here because Ray is an optional package."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Protocol, cast

from strowger_gateway.schemas.errors import InvalidConfig

Reference = object
"""Ray's ObjectRef."""


class Method(Protocol):
    def remote(self) -> Reference: ...


class Handle(Protocol):
    """Of an EngineKeeper."""

    report: Method
    end: Method


class Maker(Protocol):
    def options(self, **options: object) -> "Maker": ...
    def remote(self, *arguments: object) -> Handle: ...


class Core(Protocol):
    """https://docs.ray.io/en/latest/ray-core/api/core.html"""

    def init(self, **options: object) -> object: ...
    def is_initialized(self) -> bool: ...
    def shutdown(self) -> None: ...
    def remote(self, cls: type) -> Maker: ...
    def get_actor(self, name: str, namespace: str) -> Handle: ...
    def wait(
        self, refs: list[Reference], *, num_returns: int, timeout: float
    ) -> tuple[list[Reference], list[Reference]]: ...
    def get(self, ref: Reference) -> bytes: ...
    def kill(self, handle: Handle, *, no_restart: bool) -> None: ...
    def nodes(self) -> Sequence[Mapping[str, object]]: ...


class Group(Protocol):
    """A placement group."""


class Groups(Protocol):
    """https://docs.ray.io/en/latest/ray-core/scheduling/placement-group.html"""

    def placement_group(self, bundles: Sequence[Mapping[str, float]], **more: object) -> Group: ...
    def placement_group_table(self) -> Mapping[str, Mapping[str, object]]: ...
    def get_placement_group(self, placement_group_name: str) -> Group: ...
    def remove_placement_group(self, placement_group: Group) -> None: ...


class Library(Protocol):
    """lost: an actor that Ray does not restart. errors: all of Ray."""

    core: Core
    groups: Groups
    in_group: Callable[..., object]
    lost: type[Exception]
    errors: tuple[type[Exception], ...]


class _Found:
    def __init__(self) -> None:
        exceptions = import_module("ray.exceptions")
        self.core = cast(Core, import_module("ray"))
        self.groups = cast(Groups, import_module("ray.util.placement_group"))
        self.in_group: Callable[..., object] = import_module(
            "ray.util.scheduling_strategies"
        ).PlacementGroupSchedulingStrategy
        self.lost: type[Exception] = exceptions.ActorDiedError
        self.errors: tuple[type[Exception], ...] = (exceptions.RayError,)


def ray_library() -> Library:
    """Raises InvalidConfig without Ray."""
    try:
        return _Found()
    except ModuleNotFoundError as exc:
        if exc.name is None or exc.name.partition(".")[0] != "ray":
            raise
        raise InvalidConfig(
            ("ray: needs Ray, here and on the nodes: pip install 'strowger-gateway[ray]'",)
        ) from exc
