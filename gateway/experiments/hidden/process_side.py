"""The stage that hides variants, in each process."""

from collections.abc import Sequence

from strowger_gateway.gateway.experiments.hidden.stage import HideVariants
from strowger_gateway.gateway.stages.generation import Generation
from strowger_gateway.gateway.stages.request_part import RequestSide
from strowger_gateway.gateway.stages.stage import Stage
from strowger_gateway.gateway.surfaces.hot_route import HotRoute


class HiddenVariantsSide(RequestSide[None, None]):
    """Has a stage if an experiment of the configuration hides its variants."""

    def stages(self, generation: Generation, prepared: None, at: HotRoute) -> Sequence[Stage]:
        """See RequestSide."""
        hidden = [one for one in generation.config.experiments if not one.show_variant]
        return (HideVariants(hidden),) if hidden and not at.counts else ()
