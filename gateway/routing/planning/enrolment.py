"""Assign a request to an arm of its model's experiment, and apply what the arm changes."""

from collections.abc import Callable, Mapping
from copy import copy
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from strowger_gateway.gateway.config.schema.experiment import Experiment, Variant
from strowger_gateway.gateway.routing.exclusion import Exclusion, ExclusionCode, exclusion
from strowger_gateway.gateway.routing.participation import Participation
from strowger_gateway.gateway.routing.planning.plan_cache import PlanCache
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts, unit_of
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.gateway.routing.planning.system_prompt import with_system
from strowger_gateway.gateway.statistics import assignment
from strowger_gateway.gateway.statistics.assignment import Assignment
from strowger_gateway.schemas.errors import FieldNotAllowed, InvalidRequest
from strowger_gateway.schemas.requests import ChatRequest, Request
from strowger_gateway.schemas.tasks.task import Unsampled

UNIT_KEY = b"strowger experiments, unit 1"
"""Key of the hash under which units are recorded. Never change it: another key would give every
unit a new identity, and experiments that run would count all of them again."""

MAX_CACHED_EXCLUSIONS = 32
"""There is one per code, per reason of a pause or of a prompt that does not fit, and per variant of
a replay."""

REPLAY: Final = "x-gateway-replay"
"""Request header that asks for a variant, as EXPERIMENT/VARIANT; such requests do not count."""

MOVED = "it was given its prompt before it came to this model"
"""Of requests which a budget has moved to a model with such an experiment."""

MAX_CACHED_UNIT_CHARS = 256
"""Longer units are not cached, because clients choose their length."""


class ExperimentStatus(Struct, frozen=True, kw_only=True):
    """Whether an experiment runs: the epoch that its requests belong to, or a pause.

    epoch: 0 until the store has been read; the control serves everyone until then.
    reason: of a pause.
    """

    epoch: int = 0
    paused: bool = False
    reason: str = ""


_UNKNOWN = ExperimentStatus()


class ExperimentState:
    """The status of each experiment, by fingerprint. The experiment jobs push it here.

    One per process, kept across reloads. A configuration generation looks up its own
    fingerprints, so requests of two generations never share an epoch by accident.

    version: changes with each push.
    """

    __slots__ = ("statuses", "version")

    def __init__(self) -> None:
        self.statuses: Final[dict[str, ExperimentStatus]] = {}
        self.version = 0

    def status(self, fingerprint: str) -> ExperimentStatus:
        return self.statuses.get(fingerprint, _UNKNOWN)

    def push(self, statuses: Mapping[str, ExperimentStatus]) -> None:
        """Replace the statuses given, from the next request on."""
        self.statuses.update(statuses)
        self.version += 1


class Arm(Struct, frozen=True, kw_only=True, eq=False):
    """A variant with its backend.

    sampling: the parameters that it sets; system: "" sets none. prompt: NAME@VERSION, which the
    request already has (content/prompts); "" for none.
    """

    name: str
    backend: Backend
    weight: float = 1.0
    sampling: Mapping[str, object] = {}
    system: str = ""
    prompt: str = ""

    def applied_to(self, request: Request) -> Request:
        """The request with what the variant sets, except fields that its task does not have."""
        if isinstance(request, Unsampled):
            return request
        if self.sampling:
            sampling = replace(request.sampling, **self.sampling)
            request = replace(request, sampling=sampling)
        if not self.system or not isinstance(request, ChatRequest):
            return request
        messages = with_system(request.messages, self.system)
        return replace(request, messages=messages)


class Enrolment(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """What an experiment means for one request.

    arm: whose backend answers first; `None` if a `when` rule chooses the backend.
    """

    arm: Arm | None
    participation: Participation


class ExperimentRouter:
    """Assigns requests to the arms of one experiment. by: what arms are assigned to."""

    def __init__(
        self, config: Experiment, backend: Callable[[str], Backend], state: ExperimentState
    ) -> None:
        """backend: returns the model's backend of a name."""
        self.experiment = config.name
        self.fingerprint = fingerprint(config)
        self.arms = {
            variant.name: _arm(variant, backend(variant.backend)) for variant in config.variants
        }
        self.control = self.arms[config.control.name]
        self.arm_backends = frozenset(variant.backend for variant in config.variants)
        self.by = config.assign_by
        self.replay_keys = frozenset(config.replay_keys)
        self._chats_only = any(arm.system or arm.prompt for arm in self.arms.values())
        self._prompts = any(arm.prompt for arm in self.arms.values())
        self._state = state
        self._shown = config.show_variant
        self._version = -1
        self._assignment = Assignment(
            config.name,
            [assignment.WeightedArm(name=one.name, weight=one.weight) for one in config.variants],
        )
        self._hash = _hash_of(config.name)
        self._status = _UNKNOWN
        self._enrolled: dict[object, Enrolment] = {}
        self._exclusion_for: Callable[[ExclusionCode, str], Exclusion] = lru_cache(
            MAX_CACHED_EXCLUSIONS
        )(self._exclusion)

    @property
    def status(self) -> ExperimentStatus:
        """The current status, as far as this process knows."""
        return self._state.status(self.fingerprint)

    def enrol(self, request: Request, facts: RequestFacts) -> Enrolment:
        """Assign the request to the arm of its unit, or to the control if it is excluded."""
        if self._version != self._state.version:
            self._refresh_status()
        # The most frequent case without a call: `unit_of` returns the user for it.
        if (
            type(request) is ChatRequest
            and self.by == "user"
            and (not self._prompts or facts.left_out == "")
        ):
            enrolled = self._enrolled.get(request.user)
            if enrolled is not None:
                return enrolled
        return self._decide(request, facts)

    def replayed(self, facts: RequestFacts) -> Enrolment | None:
        """The arm that a replay asks for; `None` for all other requests.

        Raises FieldNotAllowed if its key may not, InvalidRequest for an unknown variant.
        """
        asked = facts.header(REPLAY)
        if asked is None:
            return None
        if facts.caller not in self.replay_keys or not facts.caller:
            raise FieldNotAllowed(
                f"header {REPLAY}: the key {facts.caller!r} is not in replay_keys of the "
                f"experiment {self.experiment}",
                param=REPLAY,
            )
        experiment, _, variant = asked.partition("/")
        arm = self.arms.get(variant)
        if arm is None or experiment != self.experiment:
            known = ", ".join(f"{self.experiment}/{name}" for name in self.arms)
            raise InvalidRequest(f"header {REPLAY}: must be one of {known}", param=REPLAY)
        participation = Participation(
            exclusion=self._exclusion_for("replay", arm.name), replayed=asked
        )
        return Enrolment(arm=arm, participation=participation)

    def _refresh_status(self) -> None:
        self._version = self._state.version
        status = self._state.status(self.fingerprint)
        if status is not self._status:
            self._status, self._enrolled = status, {}

    def _decide(self, request: Request, facts: RequestFacts) -> Enrolment:
        """Decide for a unit that is not cached; the result is cached until the status changes."""
        status = self._status
        if not self.replay_keys:
            self.replayed(facts)
        if status.paused:
            return self._excluded("paused", reason=status.reason)
        if not status.epoch:
            return self._excluded("unknown")
        by = self.by
        unit = facts.request_id if by == "request" else unit_of(request, facts, by)
        if not unit:
            return self._excluded("no_unit", status.epoch)
        if self._chats_only and not isinstance(request, ChatRequest):
            return self._excluded("wrong_task", status.epoch)
        if self._prompts and facts.left_out != "":
            return self._excluded("prompt", status.epoch, facts.left_out or MOVED)
        enrolled = self._enrolled.get(unit)
        if enrolled is None:
            enrolled = self._enrol(unit)
            if by != "request" and len(unit) <= MAX_CACHED_UNIT_CHARS:
                PlanCache.put(self._enrolled, unit, enrolled)
        return enrolled

    def _enrol(self, unit: str) -> Enrolment:
        """Within an epoch, the unit alone decides."""
        arm = self.arms[self._assignment.variant(unit)]
        participation = Participation(
            experiment=self.experiment,
            epoch=self._status.epoch,
            variant=arm.name,
            unit=self.hashed_unit(unit),
            assigned_backend=arm.backend.name,
            shown=self._shown,
        )
        return Enrolment(arm=arm, participation=participation)

    def with_backends(self, replaced: Callable[[Backend], Backend]) -> "ExperimentRouter":
        """A copy whose arms have other backends."""
        other = copy(self)
        other.arms = {
            name: replace(arm, backend=replaced(arm.backend)) for name, arm in self.arms.items()
        }
        other.control = other.arms[self.control.name]
        other._version, other._status, other._enrolled = -1, _UNKNOWN, {}
        return other

    def hashed_unit(self, unit: str) -> str:
        """The unit as records name it: 96 bits in hexadecimal, different in each experiment."""
        return _hashed(self._hash, unit)

    def excluded_by_rule(self) -> Enrolment:
        """The enrolment of a request whose backend a `when` rule chooses."""
        participation = Participation(exclusion=self._exclusion_for("rule", ""))
        return Enrolment(arm=None, participation=participation)

    def _excluded(self, code: ExclusionCode, epoch: int = 0, reason: str = "") -> Enrolment:
        participation = Participation(
            experiment=self.experiment if epoch else "",
            epoch=epoch,
            exclusion=self._exclusion_for(code, reason),
        )
        return Enrolment(arm=self.control, participation=participation)

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
        prompt=variant.prompt,
    )


def unit_hash(experiment: str, unit: str) -> str:
    """Return a unit as `ExperimentRouter.hashed_unit` does."""
    return _hashed(_hash_of(experiment), unit)


def _hash_of(experiment: str) -> blake2b:
    return blake2b(experiment.encode(), digest_size=12, key=UNIT_KEY)


def _hashed(of_experiment: blake2b, unit: str) -> str:
    digest = of_experiment.copy()
    digest.update(b"\0")
    digest.update(unit.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def fingerprint(config: Experiment) -> str:
    """The hash of all that starts a new epoch when it changes: model, unit and variants."""
    parts = (config.name, config.model, config.assign_by, config.variants)
    return blake2b(msgspec.json.encode(parts), digest_size=12).hexdigest()
