"""What renderers of conversations in blocks or items share: what they keep of an answer's events.

Its methods are for rare events only. Text, the most frequent event, stays in each renderer's own
loop, without a call in between.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Raw

from strowger_gateway.gateway.surfaces.base import Headers
from strowger_gateway.schemas.answers import Choice
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import OF_CHOICE, Event, Finished, OpaqueDelta, Started, Usage


class TurnRenderer:
    """Mutable state: the head, usage, the end and the vendor's fields of the answer so far.

    The class has the values before the first event, so that a renderer does not set them.
    """

    _model: str
    _begun = False
    _started = Started()
    _usage: Usage | None = None
    _end: Finished | None = None
    _opaque: Mapping[str, Raw] = MappingProxyType({})

    def headers(self, backend: str) -> Headers:
        return []

    @property
    def _answering_model(self) -> str:
        """The model that the backend names, or the requested one."""
        return self._started.model or self._model

    def _keeps(self, event: Event) -> bool:
        """Keep what the answer's head or end needs. Return whether nothing is written yet."""
        match event:
            case Usage():
                self._usage = event
                return True
            case Started():
                self._started = event
                return True
            case Finished():
                self._end = event
            case OpaqueDelta():
                self._opaque = {**self._opaque, **own_names(event.fields)}
            case _:
                pass
        return False


def own_names(fields: Mapping[str, Raw]) -> Mapping[str, Raw]:
    """Return a vendor's fields under its names, those next to the message too."""
    return {name.removeprefix(OF_CHOICE): raw for name, raw in fields.items()}


def finish_of(choice: Choice) -> Finished:
    """Return how a whole answer ended."""
    if choice.finish is None:
        raise GatewayError("an answer rendered before it was finished")
    return choice.finish
