"""Courtesy as a part: what the gateway, operators and shells get of it."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.console import (
    AdminCall,
    AdminRoute,
    Command,
    Nothing,
    PageView,
)
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.stages.request_part import RequestPart
from tests.gateway.parts.courtesy.section import MOOD, Courtesy, Rudeness


class CourtesyPart(RequestPart):
    name = "courtesy"
    section = Courtesy
    columns = (MOOD,)

    def check(self, config: Config, problems: Problems) -> None:
        found = config.section(Courtesy)
        place = ("courtesy", "rude")
        if found is not None and not found.rude and not problems.at(place):
            problems.add(place, "is empty; name a word, or remove courtesy")

    def leader(self, at: LeaderContext) -> "LeaderSide[Any, Any]":
        from tests.gateway.parts.courtesy.sides import CourtesyLeader

        return CourtesyLeader(at)

    def process(self, at: ProcessContext) -> "ProcessSide[Any, Any]":
        from tests.gateway.parts.courtesy.sides import CourtesySide

        return CourtesySide(at)

    def routes(self) -> Sequence[AdminRoute[Any]]:
        return (
            AdminRoute(
                method="GET",
                path="/courtesy",
                role="viewer",
                summary="How many requests were rude",
                takes=Nothing,
                returns=Rudeness,
                answer=_rudeness,
            ),
        )

    def views(self) -> Sequence[PageView[Any]]:
        return (
            PageView(name="courtesy", title="Courtesy", role="viewer", takes=Nothing, render=_view),
        )

    def commands(self) -> Sequence[Command]:
        target = "tests.gateway.parts.courtesy.command:courtesy"
        return (Command(name="courtesy", target=target, help="Judge the text TEXT."),)


async def _rudeness(call: AdminCall[Nothing]) -> Rudeness:
    from tests.gateway.parts.courtesy.sides import CourtesySide

    return await call.side(CourtesySide).rudeness()


async def _view(call: AdminCall[Nothing]) -> Markup:
    found = await _rudeness(call)
    return Markup("<section><h2>Courtesy</h2><p>{} rude requests</p></section>").format(found.rude)
