"""What is left of limits over all gateways, read from Redis for the operator."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec

from strowger_gateway.gateway.config.schema.limits import Limit
from strowger_gateway.gateway.coordination.gateway_transport import (
    ScriptRunner,
    TransportUnavailable,
)
from strowger_gateway.gateway.governance.limits.limits import PERIODS
from strowger_gateway.gateway.governance.limits.over_gateways.limit_script import (
    SCRIPT,
    SILENT_MS,
    ScriptAnswer,
    ScriptItem,
    ScriptRequest,
)
from strowger_gateway.gateway.governance.limits.over_gateways.limit_shards import Place, key_of
from strowger_gateway.gateway.governance.limits.standing import (
    LimitPlace,
    LimitStanding,
    left_elsewhere,
)

MOST_READ: Final = 200
"""Standings that are read from Redis for one answer; the others are of this gateway."""

READER: Final = "operator"
"""A holder that never holds anything."""

_MS: Final = 1_000_000
_encode = msgspec.json.Encoder().encode
_answer: msgspec.json.Decoder[ScriptAnswer] = msgspec.json.Decoder(ScriptAnswer)


class TurnTaker:
    """A ScriptRunner whose connection several tasks use, one after the other."""

    def __init__(self, runner: ScriptRunner) -> None:
        self._runner = runner
        self._turn = asyncio.Lock()
        self.sharded = runner.sharded

    async def run(self, commands: Sequence[tuple[str | bytes, ...]]) -> list[object]:
        """See ScriptRunner.run."""
        async with self._turn:
            return await self._runner.run(commands)


async def shared_standings(
    runner: ScriptRunner,
    named: Mapping[str, Limit],
    places: Sequence[LimitPlace],
    own: Sequence[LimitStanding],
) -> tuple[LimitStanding, ...]:
    """The first MOST_READ standings over all gateways, the others as they are.

    named: the limits in force. own: of this gateway, which is the answer while Redis does not
    answer.
    """
    known = [one for one in own[:MOST_READ] if one.limit in named]
    commands: list[tuple[str | bytes, ...]] = []
    for one in known:
        place: Place = one.limit, one.subject, one.quantity
        per = named[one.limit].per
        period = 0 if one.quantity == "concurrent" else PERIODS[per] // _MS
        item = ScriptItem(limit=one.allowed, period=period)
        body = _encode(ScriptRequest(holder=READER, items=(item,)))
        key = key_of(place, per, sharded=runner.sharded)
        commands.append(("EVAL", SCRIPT, "1", key, body, str(SILENT_MS)))
    if not commands:
        return tuple(own)
    try:
        answers = await runner.run(commands)
    except TransportUnavailable:
        return tuple(own)
    tokens = {(one.limit, one.subject): one.tokens for one in places}
    read = [
        left_elsewhere(
            one,
            _answer.decode(cast(bytes, answer)).left[0],
            tokens.get((one.limit, one.subject), 1),
        )
        for one, answer in zip(known, answers, strict=True)
    ]
    return (*read, *own[MOST_READ:])
