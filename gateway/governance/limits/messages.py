"""What the workers and their leader send each other about limits: see gateway/governance/leases.

The quantities of a place are those of `Quantity`.
"""

from msgspec import Struct

from strowger_gateway.gateway.governance.leases.messages import ToLeader, ToWorker
from strowger_gateway.gateway.governance.limits.ledger import LimitRefusal


class LimitsToLeader(Struct, frozen=True, tag=True):
    message: ToLeader


class LimitsToWorker(Struct, frozen=True, tag=True):
    message: ToWorker[LimitRefusal]
