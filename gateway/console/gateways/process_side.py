"""This process for its leader, and the gateways and engines for operators."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from strowger_gateway.gateway.assembly.admission import Admission
from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.engines import EngineProcessView
from strowger_gateway.gateway.console.admin.engines import listed as listed_engines
from strowger_gateway.gateway.console.gateways.answer import GatewayList
from strowger_gateway.gateway.console.gateways.down import down_of
from strowger_gateway.gateway.console.gateways.leader_side import OwnReportAsked
from strowger_gateway.gateway.console.gateways.memory import resident_bytes
from strowger_gateway.gateway.console.gateways.report import (
    GatewayReport,
    ProcessReport,
    differences,
    state_of,
)
from strowger_gateway.gateway.console.gateways.report_rows import stored_reports
from strowger_gateway.gateway.parts.leader_side import Work
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable

SEND_S: Final = 5.0


class GatewaysSide(ProcessSide[ProcessReport, None]):
    """Without a leader, there is no gateway to report."""

    def __init__(self, at: ProcessContext) -> None:
        self._at = at

    def works(self) -> Sequence[Work]:
        return (("process report", self._send),)

    async def gateways(self) -> GatewayList:
        """Return this gateway as it is now, and the others as they have reported to the store.

        Raises Unavailable if the leader does not answer.
        """
        self._report()
        own = None
        if not (self._at.alone and self._at.leader is None):
            own = await self._at.ask(OwnReportAsked(), GatewayReport)
        stored, trouble = await self._stored()
        name = "" if own is None else own.name
        reports = [*([] if own is None else [own]), *(one for one in stored if one.name != name)]
        now = time.time()
        seen = [state_of(one, name, now) for one in reports]
        responding = {one.name for one in seen if one.responding}
        return GatewayList(
            gateways=tuple(seen),
            differences=tuple(differences(one for one in reports if one.name in responding)),
            trouble=trouble,
        )

    async def engines(self) -> Sequence[EngineProcessView]:
        reports = await self._at.own(Gateway).processes.engine_reports()
        return listed_engines(reports).engines

    async def _stored(self) -> tuple[Sequence[GatewayReport], str]:
        """Return what the store has, and why it has nothing."""
        store, access = self._at.store, self._at.access
        if store is None or access is None:
            return (), "there is no store, so other gateways are not known"
        database = store.database
        try:
            return await access.call(lambda _: stored_reports(database)), ""
        except StoreUnavailable as exc:
            return (), f"other gateways are not known now: {exc.message}"

    async def _send(self) -> None:
        while True:
            self._report()
            await asyncio.sleep(SEND_S)

    def _report(self) -> None:
        gateway = self._at.own(Gateway)
        self._at.send(
            ProcessReport(
                memory_bytes=resident_bytes(),
                in_flight=self._at.own(Admission).in_flight,
                down=down_of(gateway.runtime.backends, gateway.processes.clock(), time.time()),
            )
        )
