"""The sides of courtesy: the leader counts over all processes, and reports the count."""

from collections.abc import Callable, Sequence

from prometheus_client import Counter

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.process_side import ProcessContext
from strowger_gateway.gateway.stages.generation import Generation
from strowger_gateway.gateway.stages.request_part import RequestSide
from strowger_gateway.gateway.stages.stage import Stage
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.schemas.errors import InvalidConfig
from tests.gateway.parts.courtesy.section import Courtesy, HowRude, Rude, Rudeness
from tests.gateway.parts.courtesy.stages import Refuses, Softens


class CourtesyLeader(LeaderSide[Rude, Rudeness]):
    receives, questions = Rude, HowRude

    def __init__(self, at: LeaderContext) -> None:
        self._broadcast = at.broadcast
        self._rude = 0

    def first(self) -> Rudeness:
        return Rudeness(self._rude)

    def joined(self, worker: int, send: Callable[[Rudeness], None]) -> None:
        send(Rudeness(self._rude))

    def on_message(self, worker: int, message: Rude) -> None:
        self._rude += 1
        self._broadcast(Rudeness(self._rude))

    async def answer(self, question: HowRude) -> Rudeness:
        return Rudeness(self._rude)


class CourtesySide(RequestSide[Rude, Rudeness]):
    receives = Rudeness

    def __init__(self, at: ProcessContext) -> None:
        self._at = at
        self._known = at.first(Rudeness) or Rudeness()
        self._refused = Counter(
            "strowger_courtesy_refused", "Rude requests that were refused.", registry=at.registry
        )

    async def ready(self, config: Config) -> None:
        """Refuse to allow fewer rude requests than there were."""
        found = config.section(Courtesy)
        if found is not None and found.most < self._known.rude:
            told = f"courtesy.most: is {found.most}, and {self._known.rude} requests were rude"
            raise InvalidConfig((told,))

    def on_message(self, message: Rudeness) -> None:
        self._known = message

    def stages(self, generation: Generation, prepared: None, at: HotRoute) -> Sequence[Stage]:
        settings = generation.config.section(Courtesy)
        if settings is None:
            return ()
        return (Refuses(settings, self.admits), Softens(settings))

    def admits(self, most: int) -> bool:
        """Count a rude request; return whether it may still be answered."""
        if self._known.rude >= most:
            self._refused.inc()
            return False
        self._at.send(Rude())
        return True

    async def rudeness(self) -> Rudeness:
        """Return what all processes have counted."""
        return await self._at.ask(HowRude(), Rudeness)
