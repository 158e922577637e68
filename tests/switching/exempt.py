"""What is still wrong with some conversations, each with the reason, and an example that shows it.

A test fails if an example is not wrong any more: then its line goes.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

from tests.switching.scene import SceneName
from tests.switching.switch import Case


class Exempt(Struct, frozen=True, kw_only=True):
    """says: a regular expression of the problem, in conversations with a turn of `vendor`."""

    vendor: str
    says: str
    because: str
    example: Case
    clients: Collection[str] = ("chat", "messages", "responses")

    def covers(self, problem: str, client: str, vendors: Collection[str]) -> bool:
        return (
            client in self.clients
            and self.vendor in vendors
            and re.search(self.says, problem) is not None
        )


def _shown(client: str, first: str, second: str, scene: SceneName) -> Case:
    return Case(
        client=client, first=first, second=second, scene=scene, stream=False, echo="everything"
    )


EXEMPT: Final[Sequence[Exempt]] = (
    *(
        Exempt(
            vendor=vendor,
            says=rf"a proof of {vendor} does not come back",
            because="The Responses API has no item for a search that another vendor ran.",
            example=_shown("responses", vendor, vendor, "cited"),
            clients=("responses",),
        )
        for vendor in ("anthropic", "vertex-anthropic")
    ),
)


def unexplained(problems: Sequence[str], client: str, vendors: Collection[str]) -> list[str]:
    """Return the problems that are not exempt."""
    return [
        one for one in problems if not any(exempt.covers(one, client, vendors) for exempt in EXEMPT)
    ]
