"""The clock of the request path: monotonic seconds, finer than the event loop's clock.

asyncio's `loop.time()` is the same clock. So is uvloop's, but it is read once per loop iteration
and truncated to milliseconds: enough for deadlines, too coarse for reported times.
"""

from time import monotonic as now

__all__ = ("now",)
