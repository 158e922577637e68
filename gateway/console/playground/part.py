"""The playground as a part: a view of the page."""

from collections.abc import Sequence
from typing import Any

from strowger_gateway.gateway.parts.console import PageView
from strowger_gateway.gateway.parts.part import Part


class PlaygroundPart(Part):
    """It has no settings."""

    name = "playground"

    def views(self) -> Sequence[PageView[Any]]:
        from strowger_gateway.gateway.console.playground.view import VIEW

        return (VIEW,)
