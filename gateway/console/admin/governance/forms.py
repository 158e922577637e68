"""What a form of the page has sent: its fields as texts, bounded."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from litestar import Request
from litestar.datastructures import State

from strowger_gateway.schemas.errors import InvalidRequest

FORM_BYTES: Final = 65_536
"""The largest body of a form."""

_FIELDS: Final = 1_024


async def form_of(request: Request[object, object, State]) -> Mapping[str, str]:
    """Read the fields, without spaces around them. Raises InvalidRequest."""
    body = await request.body()
    try:
        pairs = parse_qsl(
            body.decode("utf-8"), keep_blank_values=True, max_num_fields=_FIELDS, errors="strict"
        )
    except ValueError as exc:
        raise InvalidRequest("the form cannot be read; reload the page and try again") from exc
    return {name: value.strip() for name, value in pairs}


def listed(text: str) -> tuple[str, ...]:
    """Split a field that holds several values: separated by commas or lines."""
    return tuple(
        one for one in (part.strip() for part in text.replace("\n", ",").split(",")) if one
    )
