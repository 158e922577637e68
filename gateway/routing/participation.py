"""A request's part in an experiment, as it is told of the request from then on."""

from msgspec import Struct

from gateway.routing.exclusion import Exclusion


class Participation(Struct, frozen=True, kw_only=True, gc=False):
    """What a request counts for.

    experiment, epoch: "" and 0 without an experiment, and where it is not asked (a `when` rule, a
             pause, an epoch that is not known yet).
    variant, unit: as assigned, unit hashed; "" where nobody could be assigned.
    home:    the backend of the variant.
    left_out: why it does not count in its model's experiment; `None`: it does, or there is none.
    """

    experiment: str = ""
    epoch: int = 0
    variant: str = ""
    unit: str = ""
    assigned_backend: str = ""
    exclusion: Exclusion | None = None


NO_PARTICIPATION = Participation()
