"""Which nodes a new replica may have, by `ray.strategy`. The cluster chooses among them."""

from collections import Counter
from collections.abc import Collection, Sequence

from strowger_gateway.gateway.backends.placement.cluster import ANYWHERE, Where
from strowger_gateway.gateway.backends.placement.settings import Strategy


def where(strategy: Strategy, nodes: Sequence[str], taken: Collection[str]) -> Where:
    """Return the nodes to try first.

    nodes: those that are large enough. taken: the node of each replica, once per replica.
    """
    counts = Counter(taken)
    if strategy == "PACK":
        return Where(only=frozenset(counts))
    if strategy == "STRICT_SPREAD":
        return Where(avoid=frozenset(counts))
    if not nodes:
        return ANYWHERE
    least = min(counts[node] for node in nodes)
    return Where(avoid=frozenset(node for node in counts if counts[node] > least))
