"""The shape of placement.yaml: which engines run, how many, and where they are listed."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.config import Engine
from strowger_gateway.gateway.config.schema.engines import EngineTls
from strowger_gateway.gateway.config.schema.units import (
    MIB,
    Count,
    Name,
    Path,
    Port,
    Seconds,
    SecondsOrZero,
)

PoolName = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="letters, digits, - and _")
]

RequestBytes = Annotated[int, Meta(ge=MIB, le=256 * MIB, extra={"size": True})]

Strategy = Literal["SPREAD", "STRICT_SPREAD", "PACK"]


class Replicas(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many engines run.

    requests_per_replica: running and waiting ones that an engine is meant to have.
    grow_after_s:   for how long there must be more before replicas are added.
    shrink_after_s: for how long there must be clearly fewer before one replica is removed.
    """

    min: Count = 1
    max: Count = 1
    requests_per_replica: Count = 16
    grow_after_s: SecondsOrZero = 10.0
    shrink_after_s: SecondsOrZero = 300.0


class Listen(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of `strowger engine` on each node. Files are those of the node, not sent to it.

    cert, key, ca:   mutual TLS. allow: names of certificates that may connect; (): any.
    ports:           first and last port; `None`: a free one.
    max_connections: at a time. max_request_bytes: of a request. drain_s: for answers to finish
                     when the engine ends.
    """

    cert: Name
    key: Name
    ca: Name
    allow: tuple[Name, ...] = ()
    ports: tuple[Port, ...] | None = None
    max_connections: Count = 256
    max_request_bytes: RequestBytes = 96 * MIB
    drain_s: SecondsOrZero = 30.0


class Ray(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Ray cluster.

    address:   HOST:PORT of its control store; auto: the cluster that this machine is part of.
    namespace: of the actors. resources: that each engine reserves, by Ray's names.
    strategy:  SPREAD: on different nodes as far as possible; STRICT_SPREAD: always; PACK: on few.
    """

    address: Name = "auto"
    namespace: PoolName = "strowger"
    resources: Mapping[str, Annotated[float, Meta(gt=0)]]
    strategy: Strategy = "SPREAD"


class Placement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pool of equal engines.

    file:    that gateways have in `engines.discover.file`.
    tls:     of the connections to the engines that read their gauges, as gateways have it.
    metrics: port of /metrics on all interfaces; `None`: none.
    settle_s: between the removal of an address and the end of its engine.
    """

    name: PoolName = "pool"
    file: Path
    engine: Engine
    listen: Listen
    tls: EngineTls
    ray: Ray
    replicas: Replicas = Replicas()
    metrics: Port | None = None
    settle_s: Seconds = 5.0
