"""Format numbers for people."""

from strowger_gateway.gateway.platform.formatting import NONE, count, ms, number, share, span

__all__ = ("NONE", "count", "ms", "number", "share", "span")
