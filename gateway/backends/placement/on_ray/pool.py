"""A pool on a Ray cluster. Ray's control store has all of its state: names, nodes, reservations.

Each replica is a placement group of one bundle, which reserves its resources, and an actor in it.
Both are detached: they outlive this process, and its successor finds them by their names. A group
of all replicas could neither grow nor shrink.
"""

import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import msgspec
from msgspec.structs import replace

from strowger_gateway.gateway.backends.engines.process.process import engine_settings
from strowger_gateway.gateway.backends.placement.cluster import (
    ClusterFailed,
    KeeperReport,
    Placed,
    Where,
)
from strowger_gateway.gateway.backends.placement.on_ray.keeper import EngineKeeper, Job
from strowger_gateway.gateway.backends.placement.on_ray.library import Handle, Library, Reference
from strowger_gateway.gateway.backends.placement.settings import Placement
from strowger_gateway.gateway.config.schema.config import Provider

ANSWER_S = 3.0
"""How long one look waits for the keepers."""

REACH_S = 5.0
"""To connect to the control store, before Ray tries."""

NODE_LABEL = "ray.io/node-id"
"""https://docs.ray.io/en/latest/ray-core/scheduling/labels.html"""

_report = msgspec.json.Decoder(KeeperReport)
_OPTIONS = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}


class RayPool:
    """See Cluster. Use it from one thread."""

    def __init__(self, settings: Placement, library: Library) -> None:
        self._ray = library
        self._settings = settings
        self._prefix = f"{settings.ray.namespace}/{settings.name}/"
        self._job = msgspec.json.encode(job_of(settings))
        self._handles: dict[str, Handle] = {}
        self._asked: dict[str, Reference] = {}

    def open(self) -> None:
        """Connect. Raises ClusterFailed."""
        place = self._settings.ray
        try:
            _reach(place.address)
            self._ray.core.init(
                address=place.address,
                namespace=place.namespace,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
        except (OSError, RuntimeError, ValueError, *self._ray.errors) as exc:
            raise ClusterFailed(
                f"ray.address: no cluster can be used at {place.address!r}: {_first_line(exc)}; "
                "run this on a node of the cluster (ray start --address=HEAD:6379), or correct it"
            ) from exc

    def close(self) -> None:
        """Disconnect; replicas stay."""
        self._ray.core.shutdown()

    def look(self) -> Sequence[Placed]:
        """See Cluster.look."""
        with _Failures(self._ray):
            groups = dict(self._groups())
            lost = {name for name, node in groups.items() if node and not self._ask(name)}
            waiting = [self._asked[name] for name in groups if name in self._asked]
            if waiting:
                self._ray.core.wait(waiting, num_returns=len(waiting), timeout=ANSWER_S)
            for name in self._handles.keys() - groups.keys():
                self._forget(name)
            return [self._placed(name, node, name in lost) for name, node in groups.items()]

    def place(self, name: str, where: Where) -> None:
        """See Cluster.place."""
        resources = dict(self._settings.ray.resources)
        with _Failures(self._ray):
            group = self._ray.groups.placement_group(
                [resources],
                strategy="PACK",
                name=self._prefix + name,
                lifetime="detached",
                bundle_label_selector=_selector(where),
            )
            keeper = self._ray.core.remote(EngineKeeper).options(
                name=self._prefix + name,
                lifetime="detached",
                max_restarts=-1,
                scheduling_strategy=self._ray.in_group(
                    placement_group=group, placement_group_bundle_index=0
                ),
                **_reserved(resources),
            )
            self._handles[name] = keeper.remote(self._job)

    def nodes(self) -> Sequence[str]:
        """See Cluster.nodes."""
        with _Failures(self._ray):
            wanted = self._settings.ray.resources
            return [
                node
                for node, has in self._alive()
                if all(has.get(name, 0.0) >= amount for name, amount in wanted.items())
            ]

    def lacking(self) -> str:
        """See Cluster.lacking."""
        with _Failures(self._ray):
            wanted = {name: f"{amount:g}" for name, amount in self._settings.ray.resources.items()}
            names = sorted({name for _, has in self._alive() for name in has if ":" not in name})
        listed = ", ".join(f"{name}: {amount}" for name, amount in wanted.items())
        return (
            f"ray.resources: no node has {{{listed}}}; the nodes have {', '.join(names)}. Start a "
            "node that has them (ray start --resources), or change ray.resources"
        )

    def end(self, name: str) -> None:
        """See Cluster.end."""
        with _Failures(self._ray):
            if (handle := self._handle(name)) is not None:
                handle.end.remote()

    def remove(self, name: str) -> None:
        """See Cluster.remove."""
        with _Failures(self._ray):
            if (handle := self._handle(name)) is not None:
                self._ray.core.kill(handle, no_restart=True)
            self._forget(name)
            try:
                group = self._ray.groups.get_placement_group(self._prefix + name)
            except ValueError:
                return
            self._ray.groups.remove_placement_group(group)

    def _groups(self) -> Iterator[tuple[str, str]]:
        """Yield each replica's name and node; "" for the node if there is no reservation."""
        for one in self._ray.groups.placement_group_table().values():
            full, state = str(one["name"]), str(one["state"])
            if full.startswith(self._prefix) and state != "REMOVED":
                nodes = cast(Mapping[object, str], one["bundles_to_node_id"])
                node = next(iter(nodes.values()), "") if state == "CREATED" else ""
                yield full.removeprefix(self._prefix), node

    def _alive(self) -> Iterator[tuple[str, Mapping[str, float]]]:
        for one in self._ray.core.nodes():
            if one["Alive"]:
                yield str(one["NodeID"]), cast(Mapping[str, float], one["Resources"])

    def _ask(self, name: str) -> bool:
        """Request a report, unless one is due. Return whether there is a keeper."""
        if name in self._asked:
            return True
        handle = self._handle(name)
        if handle is None:
            return False
        self._asked[name] = handle.report.remote()
        return True

    def _placed(self, name: str, node: str, lost: bool) -> Placed:
        reference = self._asked.get(name)
        if lost or not node or reference is None:
            return Placed(name=name, node=node, lost=lost)
        done, _ = self._ray.core.wait([reference], num_returns=1, timeout=0)
        if not done:
            return Placed(name=name, node=node)
        del self._asked[name]
        try:
            return Placed(
                name=name, node=node, report=_report.decode(self._ray.core.get(reference))
            )
        except self._ray.lost:
            self._forget(name)
            return Placed(name=name, node=node, lost=True)
        except self._ray.errors:
            return Placed(name=name, node=node)

    def _handle(self, name: str) -> Handle | None:
        if name not in self._handles:
            try:
                self._handles[name] = self._ray.core.get_actor(
                    self._prefix + name, self._settings.ray.namespace
                )
            except ValueError:
                return None
        return self._handles[name]

    def _forget(self, name: str) -> None:
        self._handles.pop(name, None)
        self._asked.pop(name, None)


def _reach(address: str) -> None:
    """Raises OSError, where Ray would wait for minutes. Also ValueError."""
    host, colon, port = address.rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), REACH_S).close()


class _Failures:
    """Turns Ray's errors into ClusterFailed."""

    def __init__(self, library: Library) -> None:
        self._kinds = (*library.errors, OSError, RuntimeError)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._kinds):
            raise ClusterFailed(f"Ray: {_first_line(error)}") from error


def job_of(settings: Placement) -> Job:
    """Return what each keeper runs. It contains paths, and no certificate or key."""
    declared = settings.engine
    if declared.threads == "auto":  # the cores of this machine say nothing about the nodes'
        declared = replace(declared, threads=max(1, int(settings.ray.resources.get("CPU", 1))))
    engine = engine_settings(Provider(name="engine", adapter="local", engine=declared))
    listen = settings.listen
    options = ["--tls-cert", listen.cert, "--tls-key", listen.key, "--tls-ca", listen.ca]
    for name in listen.allow:
        options += ["--tls-allow", name]
    options += ["--max-connections", str(listen.max_connections)]
    options += ["--max-request-bytes", str(listen.max_request_bytes)]
    options += ["--drain-s", str(listen.drain_s)]
    first, last = listen.ports or (1, 0)
    return Job(
        config=msgspec.json.encode(engine).decode(),
        environment=settings.engine.environment,
        options=tuple(options),
        ports=tuple(range(first, last + 1)),
    )


def _reserved(resources: Mapping[str, float]) -> Mapping[str, object]:
    """Return the options with which an actor uses all of its group's bundle."""
    named: dict[str, object] = {"num_cpus": 0}
    others: dict[str, float] = {}
    for name, amount in resources.items():
        if name in _OPTIONS:
            named[_OPTIONS[name]] = amount
        else:
            others[name] = amount
    return {**named, "resources": others}


def _selector(where: Where) -> list[Mapping[str, str]] | None:
    if where.only:
        return [{NODE_LABEL: f"in({','.join(sorted(where.only))})"}]
    if where.avoid:
        return [{NODE_LABEL: f"!in({','.join(sorted(where.avoid))})"}]
    return None


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
