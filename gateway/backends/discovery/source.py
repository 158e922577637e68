"""Interface of a source of addresses: one look-up, which finds all of them or fails."""

from typing import Protocol

from msgspec import Struct


class HostPort(Struct, frozen=True, kw_only=True, order=True):
    """Where one replica listens. host: an IP address without brackets; in a file also a name."""

    host: str
    port: int

    @property
    def text(self) -> str:
        """The endpoint as URLs have it: `10.0.0.7:8000`, `[fd00::7]:8000`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class LookUp(Struct, frozen=True, kw_only=True):
    """What one look-up found.

    endpoints: none is there twice. refused: addresses that no replica can have, as written.
    valid_s: seconds until the answer is out of date; `None` if the source does not know.
    """

    endpoints: tuple[HostPort, ...]
    refused: tuple[str, ...] = ()
    valid_s: float | None = None


class LookUpFailed(Exception):
    """The source has no answer; the text is the reason, for logs and operators."""


class AddressSource(Protocol):
    """Knows the addresses behind one name.

    name: for logs and metrics, without secrets. lasting: the last answer stays good while the
    source fails, because only an operator changes it.
    """

    @property
    def name(self) -> str: ...

    @property
    def lasting(self) -> bool: ...

    async def look_up(self) -> LookUp:
        """Return the addresses as of now. Raises LookUpFailed."""
        ...
