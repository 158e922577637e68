"""An experiment as routing follows it: who takes part, in which arm, and what that changes."""

from collections.abc import Callable, Mapping
from copy import copy
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from gateway.config.schema_experiment import Experiment, Variant
from gateway.experiments import assignment
from gateway.experiments.assignment import Assignment
from gateway.routing.exclusion import Exclusion, ExclusionCode, exclusion
from gateway.routing.participation import Participation
from gateway.routing.planning.plan_cache import cache_put
from gateway.routing.planning.request_facts import RequestFacts, unit_of
from gateway.routing.planning.route import Backend
from gateway.routing.planning.system_prompt import with_system
from schemas.requests import ChatRequest, EmbeddingsRequest, Request

UNIT_KEY = b"strowger experiments, unit 1"
"""Of the hash under which a unit is recorded. Another key makes strangers of all: never change."""

MAX_CACHED_EXCLUSIONS = 8
"""Why requests are left out; all but a pause's reason is the same for all of them."""

MAX_CACHED_UNIT_CHARS = 256
"""Characters of a unit, at most, for it to be remembered: clients choose how long theirs are."""


class ExperimentStatus(Struct, frozen=True, kw_only=True):
    """How an experiment stands: the epoch that its requests belong to, or a pause.

    epoch: 0 while nobody has asked the store; then control serves everyone. reason: of a pause.
    """

    epoch: int = 0
    paused: bool = False
    reason: str = ""


_UNKNOWN = ExperimentStatus()


class ExperimentState:
    """How each experiment stands, by its fingerprint; whoever knows pushes it here.

    One for a process, kept over reloads, and so is the dict in it. A generation of the
    configuration asks for its own fingerprint, so requests of two generations never share an
    epoch by accident. version: another one after each push.
    """

    __slots__ = ("statuses", "version")

    def __init__(self) -> None:
        self.statuses: Final[dict[str, ExperimentStatus]] = {}
        self.version = 0

    def status(self, fingerprint: str) -> ExperimentStatus:
        return self.statuses.get(fingerprint, _UNKNOWN)

    def push(self, standings: Mapping[str, ExperimentStatus]) -> None:
        """Replaces those named, from the next request on."""
        self.statuses.update(standings)
        self.version += 1


class Arm(Struct, frozen=True, kw_only=True, eq=False):
    """A variant, ready to be followed. sampling: the fields that it sets; system: "" none."""

    name: str
    backend: Backend
    weight: float = 1.0
    sampling: Mapping[str, object] = {}
    system: str = ""

    def applied_to(self, request: Request) -> Request:
        """The request with what the variant sets; a field that its task lacks is left out."""
        if isinstance(request, EmbeddingsRequest):
            return request
        if self.sampling:
            sampling = replace(request.sampling, **self.sampling)
            request = replace(request, sampling=sampling)
        if not self.system or not isinstance(request, ChatRequest):
            return request
        messages = with_system(request.messages, self.system)
        return replace(request, messages=messages)


class Enrolment(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """What an experiment means to one request. arm: whose backend answers first.

    arm: `None` where a `when` rule decided.
    """

    arm: Arm | None
    participation: Participation


class ExperimentRouter:
    """One experiment of one generation of the configuration. by: what arms are assigned to."""

    def __init__(
        self, config: Experiment, backend: Callable[[str], Backend], state: ExperimentState
    ) -> None:
        """backend: the model's own, by name."""
        self.experiment = config.name
        self.fingerprint = fingerprint(config)
        self.arms = {
            variant.name: _arm(variant, backend(variant.backend)) for variant in config.variants
        }
        self.control = self.arms[config.control.name]
        self.arm_backends = frozenset(variant.backend for variant in config.variants)
        self.by = config.assign_by
        self._chats_only = any(arm.system for arm in self.arms.values())
        self._state = state
        self._version = -1
        self._assignment = Assignment(
            config.name,
            [assignment.Arm(name=one.name, weight=one.weight) for one in config.variants],
        )
        self._hash = blake2b(config.name.encode(), digest_size=12, key=UNIT_KEY)
        self._status = _UNKNOWN
        self._enrolled: dict[object, Enrolment] = {}
        self._exclusion_for: Callable[[ExclusionCode, str], Exclusion] = lru_cache(
            MAX_CACHED_EXCLUSIONS
        )(self._exclusion)

    @property
    def status(self) -> ExperimentStatus:
        """How it stands now, as far as this process has heard."""
        return self._state.status(self.fingerprint)

    def enrol(self, request: Request, facts: RequestFacts) -> Enrolment:
        """The request's arm: the one that its unit is assigned to, or control's."""
        if self._version != self._state.version:
            self._refresh_status()
        if type(request) is ChatRequest and self.by == "user":
            enrolled = self._enrolled.get(request.user)
            if enrolled is not None:
                return enrolled
        return self._decide(request, facts)

    def _refresh_status(self) -> None:
        self._version = self._state.version
        standing = self._state.status(self.fingerprint)
        if standing is not self._status:
            self._status, self._enrolled = standing, {}

    def _decide(self, request: Request, facts: RequestFacts) -> Enrolment:
        """For one whose unit has not asked lately; it is remembered for as long as that holds."""
        standing = self._status
        if standing.paused:
            return self._excluded("paused", reason=standing.reason)
        if not standing.epoch:
            return self._excluded("unknown")
        by = self.by
        unit = facts.request_id if by == "request" else unit_of(request, facts, by)
        if not unit:
            return self._excluded("no_unit", standing.epoch)
        if self._chats_only and not isinstance(request, ChatRequest):
            return self._excluded("wrong_task", standing.epoch)
        enrolled = self._enrolled.get(unit)
        if enrolled is None:
            enrolled = self._enrol(unit)
            if by != "request" and len(unit) <= MAX_CACHED_UNIT_CHARS:
                cache_put(self._enrolled, unit, enrolled)
        return enrolled

    def _enrol(self, unit: str) -> Enrolment:
        """Which the unit alone decides, in an epoch."""
        arm = self.arms[self._assignment.variant(unit)]
        part = Participation(
            experiment=self.experiment,
            epoch=self._status.epoch,
            variant=arm.name,
            unit=self.hashed_unit(unit),
            assigned_backend=arm.backend.name,
        )
        return Enrolment(arm=arm, participation=part)

    def with_backends(self, place: Callable[[Backend], Backend]) -> "ExperimentRouter":
        """A copy whose arms have other backends."""
        other = copy(self)
        other.arms = {
            name: replace(arm, backend=place(arm.backend)) for name, arm in self.arms.items()
        }
        other.control = other.arms[self.control.name]
        other._version, other._status, other._enrolled = -1, _UNKNOWN, {}
        return other

    def hashed_unit(self, unit: str) -> str:
        """What the records call a unit: 96 bits in hexadecimal, another for each experiment."""
        digest = self._hash.copy()
        digest.update(b"\0")
        digest.update(unit.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def excluded_by_rule(self) -> Enrolment:
        """Of a request that a `when` rule sends elsewhere."""
        return Enrolment(
            arm=None, participation=Participation(exclusion=self._exclusion_for("rule", ""))
        )

    def _excluded(self, code: ExclusionCode, epoch: int = 0, reason: str = "") -> Enrolment:
        why = self._exclusion_for(code, reason)
        part = Participation(
            experiment=self.experiment if epoch else "", epoch=epoch, exclusion=why
        )
        return Enrolment(arm=self.control, participation=part)

    def _exclusion(self, code: ExclusionCode, reason: str) -> Exclusion:
        return exclusion(self.experiment, code, by=self.by, reason=reason)


def _arm(variant: Variant, backend: Backend) -> Arm:
    values = msgspec.structs.asdict(variant.set.sampling)
    return Arm(
        name=variant.name,
        backend=backend,
        weight=variant.weight,
        sampling={name: value for name, value in values.items() if value is not UNSET},
        system=variant.set.system or "",
    )


def fingerprint(config: Experiment) -> str:
    """Of everything whose change begins a new epoch: model, unit and variants in full."""
    parts = (config.name, config.model, config.assign_by, config.variants)
    return blake2b(msgspec.json.encode(parts), digest_size=12).hexdigest()
