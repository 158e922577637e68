"""The commands of replay, in the order of the help."""

from typing import Final

from strowger_gateway.gateway.cli.experiments.replay.command import replay
from strowger_gateway.gateway.cli.experiments.replay.reports import (
    replay_export,
    replay_remove,
    replay_report,
)

REPLAYS: Final = (replay, replay_report, replay_export, replay_remove)
