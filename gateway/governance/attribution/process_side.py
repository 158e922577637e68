"""Attribution in a serving process."""

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.attribution.attributor import Attributor
from strowger_gateway.gateway.governance.attribution.section import Attribution
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class AttributionSide(ProcessSide[None, None]):
    """attributor: of the process's request log."""

    def __init__(self, at: ProcessContext) -> None:
        self.attributor = at.own(Attributor)
        self.use(at.config())

    def use(self, config: Config) -> None:
        self.attributor.configure(config.section(Attribution) or Attribution())
