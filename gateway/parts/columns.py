"""A field that a part adds to what is recorded of each request."""

from math import isfinite
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.rows import Attribute

LONGEST = 500
"""Characters of a text, at most."""

_INT = 1 << 63
ValueT = TypeVar("ValueT", str, int, float, bool)


class Attributed(Protocol):
    """The record of a request."""

    def set_attribute(self, name: str, value: Attribute) -> None: ...


class Column(Struct, Generic[ValueT], frozen=True, kw_only=True):
    """A field by name among the `attributes` of a request: in the access log, the API and exports.

    A stage sets it, until the request has ended: `SAVED.set(request.record, 0.25)`. A request
    without a value has none, and costs nothing.

    name: unique among all columns; lower case, with underscores. kind: of its values: str, int,
    float or bool. about: one sentence for the documentation.
    """

    name: str
    kind: type[ValueT]
    about: str

    def set(self, record: Attributed, value: ValueT) -> None:
        """Record a value. Texts are cut; numbers that JSON cannot carry are not recorded."""
        exact: Attribute = self.kind(value)  # of its own type: JSON knows no subclasses
        if isinstance(exact, str):
            exact = exact[:LONGEST].encode("utf-8", "replace").decode()
        elif (isinstance(exact, float) and not isfinite(exact)) or not -_INT <= exact < _INT:
            return
        record.set_attribute(self.name, exact)
