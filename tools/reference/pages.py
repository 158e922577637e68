"""Which page is written by what."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tools.reference import errors

ROOT = Path(__file__).parents[2]
PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/errors.md": errors.page,
}
"""The text of each page, by its path in the repository."""
