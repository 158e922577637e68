"""Name the part whose bug ends a start or a reload."""

from collections.abc import Generator
from contextlib import contextmanager

from strowger_gateway.schemas.errors import InvalidConfig


@contextmanager
def named(part: str, what: str) -> Generator[None]:
    """Name the part in what is raised here, unless it is about a setting. what: "X failed"."""
    try:
        yield
    except InvalidConfig:
        raise
    except Exception as exc:
        exc.add_note(f"part {part}: {what} failed")
        raise
