"""Stages are entered in the order of places and left in reverse, whatever ends the request."""

from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.parts.process_side import ProcessContext
from strowger_gateway.gateway.stages.generation import Generation
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.request_part import RequestPart, RequestSide
from strowger_gateway.gateway.stages.stage import BaseStage, Place, RouteStages, Stage
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.schemas.errors import InvalidRequest
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import provider

CHAT = {"model": "chat", "messages": [{"role": "user", "content": "Hello"}]}


class Told(BaseStage):
    """Says when it is entered and left, and fails if the request asks for it."""

    leaves = True

    def __init__(self, name: str, place: Place, told: list[str], *, waits: bool = False) -> None:
        self._name = name
        self._place = place
        self._told = told
        self._waits = waits

    @property
    def place(self) -> Place:
        return self._place

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        request.slots[self.slot] = self._name
        return self._enter(request) if self._waits else self._tell(request)

    def leave(self, request: RequestContext) -> None:
        kept = request.slots[self.slot]
        if kept is not None:
            assert kept == self._name, "each stage has a slot of its own"
            self._told.append(f"-{self._name}")

    async def _enter(self, request: RequestContext) -> None:
        self._tell(request)

    def _tell(self, request: RequestContext) -> None:
        self._told.append(f"+{self._name}")
        if request.exchange.fields.get(b"x-fails-at") == self._name.encode():
            raise InvalidRequest(f"refused at {self._name}")


class ToldSide(RequestSide[None, None]):
    def __init__(self, told: list[str], prefix: str) -> None:
        self._told = told
        self._prefix = prefix

    def stages(self, generation: Generation, prepared: None, at: HotRoute) -> Sequence[Stage]:
        places = (Place.PLAN, Place.ADMIT, Place.EXAMINE)
        return [
            Told(f"{self._prefix}{place.name}", place, self._told, waits=place is Place.PLAN)
            for place in places
        ]


class FirstPart(RequestPart):
    name = "first_told"

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def process(self, at: ProcessContext) -> "ToldSide":
        return ToldSide(self._told, "a")


class SecondPart(FirstPart):
    name = "second_told"

    def process(self, at: ProcessContext) -> "ToldSide":
        return OtherSide(self._told, "b")


class OtherSide(ToldSide):
    """Sides are found by their class."""


ALL = ["+aADMIT", "+bADMIT", "+aEXAMINE", "+bEXAMINE", "+aPLAN", "+bPLAN"]


@pytest.mark.anyio
@pytest.mark.parametrize("fails_at", ["", "aADMIT", "bEXAMINE", "aPLAN", "bPLAN"])
async def test_what_was_entered_is_left_in_reverse(tmp_path: Path, fails_at: str) -> None:
    told: list[str] = []
    parts: Any = (*PARTS, FirstPart(told), SecondPart(told))
    async with (
        provider() as vendor,
        serving(one_model(vendor.base_url), tmp_path, parts=parts) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        headers = {"x-fails-at": fails_at}
        answer = await client.post("/v1/chat/completions", json=CHAT, headers=headers)

    entered = ALL if not fails_at else ALL[: ALL.index(f"+{fails_at}") + 1]
    assert answer.status_code == (400 if fails_at else 200)
    assert told == [*entered, *(f"-{name[1:]}" for name in reversed(entered))]


def test_stages_of_parts_come_first_in_a_place_and_in_their_order() -> None:
    told: list[str] = []
    own = [Told(f"own{place.name}", place, told) for place in (Place.ADMIT, Place.PLAN)]
    parts = [Told("x", Place.PLAN, told), Told("y", Place.ADMIT, told), Told("z", Place.PLAN, told)]

    stages = RouteStages(parts, own)

    entered = [one.__self__ for one in stages.enter]  # type: ignore[attr-defined]
    assert entered == [parts[1], own[0], parts[0], parts[2], own[1]]
    assert [one.slot for one in parts] == [0, 1, 2]
    assert stages.slots == len(parts)
