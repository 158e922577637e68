"""Which page is written by what."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tools.reference import errors, http_api, metrics, python_api

ROOT = Path(__file__).parents[2]
PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/errors.md": errors.page,
    "docs/reference/http-api.md": http_api.page,
    "docs/reference/metrics.md": metrics.page,
    "docs/reference/python-api.md": python_api.page,
}
"""The text of each page, by its path in the repository."""
