"""The replicas that a serving process sends requests to."""

from abc import ABC, abstractmethod

from strowger_gateway.gateway.backends.discovery.discovered import Discovered
from strowger_gateway.gateway.backends.gauges.readings import ReplicaReadings
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class UsesReplicas(ABC):
    """What sends requests to replicas: the generations of a process."""

    @abstractmethod
    def use_replicas(self, found: Discovered) -> None:
        """Send requests to these replicas from now on; those that run keep theirs."""

    @abstractmethod
    def use_readings(self, found: ReplicaReadings) -> None:
        """Note how busy the replicas say they are."""


class ReplicasSide(ProcessSide[None, Discovered | ReplicaReadings]):
    """Passes on what the leader finds."""

    receives = Discovered | ReplicaReadings

    def __init__(self, at: ProcessContext) -> None:
        self._users = at.own(UsesReplicas)

    def on_message(self, message: Discovered | ReplicaReadings) -> None:
        if isinstance(message, Discovered):
            self._users.use_replicas(message)
        else:
            self._users.use_readings(message)
