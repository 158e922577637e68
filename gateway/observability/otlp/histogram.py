"""Histograms with cumulative counts, encoded as OTLP metrics.

Field numbers: opentelemetry/proto/metrics/v1/metrics.proto,
https://github.com/open-telemetry/opentelemetry-proto/tree/v1.7.0
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from struct import pack
from typing import Final

from strowger_gateway.gateway.observability.otlp.protobuf import Value, key_value, part

CUMULATIVE: Final = 2


class CumulativeHistogram:
    """One time series. bounds: upper bounds of the buckets, inclusive, ascending."""

    __slots__ = ("_bounds", "_constant", "_counts", "_highest", "_lowest", "_sum")

    def __init__(self, bounds: Sequence[float], attributes: Mapping[str, Value]) -> None:
        self._bounds = bounds
        pairs = attributes.items()
        encoded = part(7, pack(f"<{len(bounds)}d", *bounds))
        self._constant = encoded + b"".join([part(9, key_value(*one)) for one in pairs])
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._lowest = float("inf")
        self._highest = float("-inf")

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value
        if value < self._lowest:
            self._lowest = value
        if value > self._highest:
            self._highest = value

    def data_point(self, started: int, now: int) -> bytes:
        """Encode what was observed so far, at least one value. started, now: Unix nanoseconds."""
        counts = self._counts
        return b"".join(
            (
                pack("<BQBQBQ", 0x11, started, 0x19, now, 0x21, sum(counts)),
                pack("<Bd", 0x29, self._sum),
                part(6, pack(f"<{len(counts)}Q", *counts)),
                self._constant,
                pack("<BdBd", 0x59, self._lowest, 0x61, self._highest),
            )
        )


def histogram_metric(name: str, description: str, unit: str, points: Iterable[bytes]) -> bytes:
    """Encode field 2 of ScopeMetrics: one metric. points: as from `data_point`."""
    held = b"".join([part(1, point) for point in points]) + bytes((0x10, CUMULATIVE))
    named = part(1, name.encode()) + part(2, description.encode()) + part(3, unit.encode())
    return part(2, named + part(9, held))
