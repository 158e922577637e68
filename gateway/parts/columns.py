"""A field that a part adds to what is recorded of each request."""

from typing import Literal

from msgspec import Struct

Kind = Literal["text", "integer", "number", "flag"]


class Column(Struct, frozen=True, kw_only=True):
    """A field by name in the access log, the API, the database and exports.

    A stage sets it by `request.record.parts[name] = value`; a request without a value has none.

    name: unique among all columns; lower case, with underscores. kind: of its values: str, int,
    float, bool. about: one sentence for the documentation.
    """

    name: str
    kind: Kind
    about: str
