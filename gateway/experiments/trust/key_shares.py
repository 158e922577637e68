"""The largest shares of API keys in an experiment: one key can invent units, and vote as each.

The sample ratio test does not see it: invented units are split as the weights require.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.sql.experiments.key_shares import KeySent, sent_by_key

NAMED = 5
"""Keys of each variant in a report."""

LARGE = 0.25
"""Share of a variant's units or votes above which a key is reported, if there are others."""


class KeyVotes(Struct, frozen=True, kw_only=True):
    """share: of the variant's votes on the metric, 0 to 1."""

    metric: str
    votes: int
    share: float


class KeyShare(Struct, frozen=True, kw_only=True):
    """What one key sent of a variant. key: "" for requests without one. Shares are 0 to 1.

    keys: with requests of the variant. votes: on metrics that decide the experiment.
    """

    variant: str
    key: str
    keys: int
    requests: int
    request_share: float
    units: int
    unit_share: float
    votes: tuple[KeyVotes, ...] = ()


def key_shares(store: Store, experiment: Experiment) -> tuple[KeyShare, ...]:
    """Return the keys with the most units of each variant. Blocks. Raises StoreUnavailable.

    Units and votes that are excluded do not count. A unit that several keys sent for counts for
    each of them.
    """
    with store.database.reading() as session:
        rows = sent_by_key(session, experiment.name)
    by_variant: defaultdict[str, list[KeySent]] = defaultdict(list)
    votes: defaultdict[tuple[str, str], list[KeySent]] = defaultdict(list)
    for row in rows:
        if not row.metric:
            by_variant[row.variant].append(row)
        elif experiment.decided_by(row.metric):
            votes[row.variant, row.metric].append(row)
    found: list[KeyShare] = []
    for variant in experiment.variants:
        sent = by_variant[variant.name]
        requests, units = sum(one.count for one in sent), sum(one.units for one in sent)
        largest = sorted(sent, key=lambda one: (-one.units, -one.count, one.key))[:NAMED]
        found += [
            KeyShare(
                variant=variant.name,
                key=one.key,
                keys=len(sent),
                requests=one.count,
                request_share=one.count / requests,
                units=one.units,
                unit_share=one.units / units,
                votes=tuple(
                    _votes(metric, own, one.key)
                    for (of, metric), own in sorted(votes.items())
                    if of == variant.name
                ),
            )
            for one in largest
        ]
    return tuple(found)


def key_notes(experiment: Experiment, keys: Sequence[KeyShare]) -> Iterator[str]:
    """Yield a note for each key with a large share of a variant, if other keys take part."""
    if experiment.assign_by == "api_key":
        return
    seen: set[str] = set()
    for one in sorted(keys, key=_largest, reverse=True):
        if one.key in seen or one.keys < 2 or _largest(one) < LARGE:
            continue
        seen.add(one.key)
        shares = [f"{100 * one.unit_share:.0f} % of {one.variant}'s units"]
        shares += [
            f"{100 * vote.share:.0f} % of its votes on {vote.metric}"
            for vote in one.votes
            if vote.share >= LARGE
        ]
        name = f"key {one.key}" if one.key else "requests without a key"
        given = one.key or '""'
        yield (
            f"{name}: {' and '.join(shares)}. A key can invent units, which the split does not "
            f"show; if it is not trusted, exclude it (strowger experiments exclude "
            f"{experiment.name} --key {given}), and assign by api_key in the next "
            "experiment"
        )


def _largest(one: KeyShare) -> float:
    return max((one.unit_share, *(vote.share for vote in one.votes)))


def _votes(metric: str, sent: Sequence[KeySent], key: str) -> KeyVotes:
    own = sum(one.count for one in sent if one.key == key)
    return KeyVotes(metric=metric, votes=own, share=own / sum(one.count for one in sent))
