"""A request's bytes: the head, of which little changes, with the body behind it."""

from adapters.base import Outbound
from gateway.upstream.request_validation import check

_HEADS_KEPT = 256

Headers = tuple[tuple[str, str], ...]


class Heads:
    """Renders requests to one origin, remembering the last head sent to each target."""

    __slots__ = ("_authority", "_kept")

    def __init__(self, authority: str) -> None:
        self._authority = authority
        self._kept: dict[str, tuple[str, Headers, bytes]] = {}

    def render(self, outbound: Outbound) -> bytes:
        """Head and body in one piece. Raises as `check`."""
        kept = self._kept.get(outbound.target)
        if kept is not None and kept[1] == outbound.headers and kept[0] == outbound.method:
            head = kept[2]
        else:
            head = self._head(outbound)
        body = outbound.body
        return b"%b%d\r\n\r\n%b" % (head, len(body), body)

    def _head(self, outbound: Outbound) -> bytes:
        check(outbound)
        lines = [f"{outbound.method} {outbound.target} HTTP/1.1", f"host: {self._authority}"]
        lines += [f"{name}: {value}" for name, value in outbound.headers]
        lines += ["accept-encoding: identity", "content-length: "]
        head = "\r\n".join(lines).encode("latin-1")
        if len(self._kept) >= _HEADS_KEPT:
            self._kept.clear()
        self._kept[outbound.target] = (outbound.method, outbound.headers, head)
        return head
