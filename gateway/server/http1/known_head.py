"""The head that a connection's requests share, which need not be parsed again.

A client sends the same head with every request of a connection, but for the length of the body.
Such a head means what the parser found the first time, because it is equal byte by byte.
"""

from msgspec import Struct

MOST_BYTES = 4096
"""Length of the longest head that is remembered: it stays in memory with its connection."""

_LENGTH = b"content-length"
_MOST_DIGITS = 15


class KnownHead(Struct, frozen=True, kw_only=True):
    """A head that was read before.

    before, after: its bytes around the digits of the content-length; after ends in an empty line.
    place: of the content-length among the headers. method, target, headers and fields are
    RequestParser's.
    """

    before: bytes
    after: bytes
    place: int
    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    fields: dict[bytes, bytes]

    def match(self, data: bytes) -> tuple[bytes, int] | None:
        """Return the content-length's digits, and where the body begins in this data.

        `None` if the data does not begin with this head.
        """
        if not data.startswith(self.before):
            return None
        begin = len(self.before)
        end = data.find(b"\r", begin, begin + _MOST_DIGITS + 1)
        digits = data[begin:end]
        if end < 0 or not digits.isdigit() or not data.startswith(self.after, end):
            return None
        return digits, end + len(self.after)


def known_head(
    data: bytes,
    size: int,
    *,
    method: str,
    target: bytes,
    headers: list[tuple[bytes, bytes]],
    fields: dict[bytes, bytes],
) -> KnownHead | None:
    """Return what to remember of a head that was read, or `None` if it cannot be recognised.

    data: it begins with the request line. size: bytes up to the end of the first empty line. The
    rest is as in `KnownHead`.
    """
    head = data[:size]
    # With a line before and after it, this is the header itself and no other one's end or value.
    line = b"\r\n%b: %b\r\n" % (_LENGTH, fields.get(_LENGTH, b""))
    spelled = head.lower()
    names = [name for name, _ in headers]
    if (
        size > MOST_BYTES
        or head.count(b"\r\n") != len(headers) + 2
        or spelled.count(line) != 1
        or names.count(_LENGTH) != 1
    ):
        return None
    begin = spelled.index(line) + len(_LENGTH) + 4
    end = begin + len(line) - len(_LENGTH) - 6
    return KnownHead(
        before=head[:begin],
        after=head[end:],
        place=names.index(_LENGTH),
        method=method,
        target=target,
        headers=headers.copy(),
        fields=fields.copy(),
    )
