"""Commands of a part, and `strowger` with them: `python -m tests.gateway.cli.watermark_commands`.

The variable PARTS names which parts it has: fine, own, twice.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from strowger_gateway.gateway.cli.main import command
from strowger_gateway.gateway.parts.console import Command
from strowger_gateway.gateway.parts.part import Part

TARGET: Final = "tests.gateway.cli.watermark_program"


class WatermarkPart(Part):
    name = "watermark"

    def commands(self) -> Sequence[Command]:
        return (
            Command(
                name="watermark",
                target=f"{TARGET}:sign",
                help="Sign the text TEXT as an answer would be signed. Prints it.",
            ),
            Command(name="fonts", target=f"{TARGET}:fonts", help="Fonts for watermarks."),
        )


class SecondPart(Part):
    name = "second"

    def commands(self) -> Sequence[Command]:
        return (Command(name="fonts", target=f"{TARGET}:fonts", help="Other fonts."),)


class CheckPart(Part):
    name = "checks"

    def commands(self) -> Sequence[Command]:
        return (Command(name="check", target=f"{TARGET}:sign", help="Check it."),)


PARTS: Final[Mapping[str, tuple[Part, ...]]] = {
    "fine": (WatermarkPart(),),
    "own": (CheckPart(),),
    "twice": (WatermarkPart(), SecondPart()),
}

if __name__ == "__main__":
    try:
        command(lambda: PARTS[os.environ.get("PARTS", "fine")])(prog_name="strowger")
    finally:
        if "SHOW_IMPORTS" in os.environ:
            sys.stderr.write(f"imported: {TARGET in sys.modules}\n")
