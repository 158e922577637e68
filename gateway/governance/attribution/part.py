"""Attribution as a part: its section, and the attributor that uses it."""

from typing import Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.attribution.section import Attribution
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class AttributionPart(Part):
    name = "attribution"
    section = Attribution

    def check(self, config: Config, problems: Problems) -> None:
        found = config.section(Attribution)
        seen: dict[str, int] = {}
        for place, one in enumerate(() if found is None else found.clients):
            spelled = one.user_agent.lower()
            shadow = next((at for text, at in seen.items() if spelled.startswith(text)), None)
            if shadow is not None:
                problems.add(
                    ("attribution", "clients", place, "user_agent"),
                    f"never matches: attribution.clients[{shadow}] matches first; put it before",
                )
            seen[spelled] = place

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.governance.attribution.process_side import AttributionSide

        return AttributionSide(at)
