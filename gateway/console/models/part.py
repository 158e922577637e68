"""The models as a part: `GET /admin/models`, and the view of the page."""

from collections.abc import Sequence
from typing import Any

from strowger_gateway.gateway.parts.console import AdminRoute, PageView
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class ModelsPart(Part):
    """It has no settings of its own."""

    name = "model_views"

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.console.models.process_side import ModelsSide

        return ModelsSide()

    def routes(self) -> Sequence[AdminRoute[Any]]:
        from strowger_gateway.gateway.console.models.admin import ROUTE

        return (ROUTE,)

    def views(self) -> Sequence[PageView[Any]]:
        from strowger_gateway.gateway.console.models.admin import VIEW

        return (VIEW,)
