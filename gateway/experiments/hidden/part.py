"""Hidden variants as a part: `show_variant: false` of an experiment."""

from typing import Any

from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.stages.request_part import RequestPart


class HiddenVariantsPart(RequestPart):
    """`experiments[].show_variant` is a field of `Config`."""

    name = "hidden_variants"

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.experiments.hidden.process_side import HiddenVariantsSide

        return HiddenVariantsSide()
