"""One call of the limits' script as several, where each command's keys must share a hash slot.

In a Redis Cluster the quantities of one limit and subject have a hash tag of their own, so limits
spread over the slots. A request with several limits then is one call for each, and what some of
them granted is given back if another one refuses. So no limit is exceeded; for one round trip
another request may find less room than there will be.
https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
"""

from collections.abc import Callable, Sequence
from itertools import groupby

from strowger_gateway.gateway.governance.leases.messages import Place
from strowger_gateway.gateway.governance.limits.over_gateways.limit_script import (
    ScriptAnswer,
    ScriptItem,
)

KEY = "strowger:limit:1:"
"""Contains the version of the format."""


def key_of(place: Place, period: str, *, sharded: bool) -> str:
    """Return the key of a place; with `sharded`, a tag that its other quantities have too.

    A subject may contain braces: the tag ends with the first `}`, which all of them have.
    """
    limit, subject, quantity = place
    if sharded:
        return f"{KEY}{{{limit}:{subject}}}:{quantity}:{period}"
    return f"{KEY}{quantity}:{period}:{limit}:{subject}"


def shards(places: Sequence[Place], *, sharded: bool) -> list[list[int]]:
    """Return the positions that one command may contain; all of them, unless `sharded`."""
    every = range(len(places))
    if not sharded:
        return [list(every)] if places else []
    tag: Callable[[int], tuple[str, str]] = lambda at: places[at][:2]  # noqa: E731  a key of both calls
    return [list(one) for _, one in groupby(sorted(every, key=tag), key=tag)]


def merged(
    size: int, parts: Sequence[tuple[Sequence[int], ScriptAnswer]]
) -> tuple[ScriptAnswer, list[int]]:
    """Return the answer to the whole call, and what was granted for nothing, by position.

    size: items of the call. parts: the positions in each command, and its answer. As in the script,
    the item with the longest wait refuses.
    """
    if len(parts) == 1:
        return parts[0][1], [0] * size
    granted, left, mine = [0] * size, [0] * size, [0] * size
    refused, wait, reserved = 0, -1, False
    for positions, answer in parts:
        if answer.refused and answer.wait > wait:
            refused, wait = positions[answer.refused - 1] + 1, answer.wait
            reserved = answer.reserved
        for at, *found in zip(positions, answer.granted, answer.left, answer.mine, strict=True):
            granted[at], left[at], mine[at] = found
    whole = ScriptAnswer(
        refused=refused,
        wait=wait,
        granted=(0,) * size if refused else tuple(granted),
        left=tuple(left),
        mine=tuple(mine),
        reserved=reserved,
    )
    return whole, granted if refused else [0] * size


def given_back(item: ScriptItem, amount: int) -> ScriptItem:
    """Return the item that gives a granted amount back."""
    return ScriptItem(limit=item.limit, period=item.period, back=amount)
