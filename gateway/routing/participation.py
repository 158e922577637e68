"""A request's participation in an experiment."""

from msgspec import Struct

from strowger_gateway.gateway.routing.exclusion import Exclusion


class Participation(Struct, frozen=True, kw_only=True, gc=False):
    """The experiment and variant that a request counts for.

    experiment, epoch: "" and 0 without an experiment, and if the request never reaches it (a
             `when` rule, a pause, an epoch that is not known yet).
    variant, unit: as assigned, the unit hashed; "" if there is no unit to assign.
    assigned_backend: the variant's.
    shown:   the client may know its variant.
    exclusion: why the request does not count; `None` if it counts, or there is no experiment.
    replayed: EXPERIMENT/VARIANT that a replay has asked for; "" for all other requests.
    """

    experiment: str = ""
    epoch: int = 0
    variant: str = ""
    unit: str = ""
    assigned_backend: str = ""
    shown: bool = True
    exclusion: Exclusion | None = None
    replayed: str = ""


NO_PARTICIPATION = Participation()
