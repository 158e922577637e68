"""Measure the JSON of a request before it is decoded."""

from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.measured_json import Complexity, TooComplex
from strowger_gateway.schemas.measured_json import measure as measured

CODE = "body_too_complex"


def measure(body: bytes, end: int) -> Complexity:
    """Count what the first `end` bytes contain. Raises InvalidRequest, which names the limit."""
    try:
        return measured(body, end)
    except TooComplex as exc:
        raise too_complex("the body", exc) from None


def too_complex(what: str, found: TooComplex, *, param: str | None = None) -> InvalidRequest:
    """Return the client's error. what: the subject of the sentence, such as `the body`."""
    if found.remedy:
        text = f"{found.problem}; {found.remedy}"
    else:
        text = f"{what} has {found.problem}; split it into several requests"
    return InvalidRequest(text, param=param, code=CODE)
