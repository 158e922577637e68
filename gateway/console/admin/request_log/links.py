"""Links from other views to the requests that a figure counts."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

LIST: Final = "/admin/view/requests"


def requests_link(**filters: str) -> str:
    """Return the address of the requests that match. filters: as of FilterParameters."""
    return with_filters(filters)


def with_filters(filters: Mapping[str, str]) -> str:
    """Return the address of the list with those filters that are not empty."""
    query = urlencode([(name, value) for name, value in filters.items() if value])
    return f"{LIST}?{query}" if query else LIST


def request_link(request_id: str) -> str:
    """Return the address of one request."""
    return f"{LIST}/{quote(request_id, safe='')}"
