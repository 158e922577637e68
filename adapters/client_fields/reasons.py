"""Reasons for withholding a client's field, and table rows that share one."""

from strowger_gateway.adapters.client_fields.patterns import Withheld

MODEL = "it selects other models or providers, bypassing the models that a key may use"
HOST = "it names a host that the backend then calls from its own network"
KEY = "it contains credentials or header fields, which only the operator may set"
STORED = (
    "it refers to, or creates, an object stored under the operator's account, "
    "which all clients share"
)
BILLING = "it changes what the operator pays for"
CACHE = "it selects a cache, or a name, that any client can use"
CODE = "it is code, or a server setting, that affects more than one request"


def rows(
    reason: str,
    source: str,
    *paths: str,
    harmless: tuple[str | bool, ...] = (),
    address: bool = False,
    optional: bool = False,
) -> tuple[Withheld, ...]:
    """See strowger_gateway.adapters.client_fields.patterns.Withheld."""
    return tuple(
        Withheld(
            path=path,
            reason=reason,
            source=source,
            harmless=harmless,
            address=address,
            optional=optional,
        )
        for path in paths
    )
