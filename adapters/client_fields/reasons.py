"""The reasons for which a client's field is withheld, and rows of a table that share one."""

from adapters.client_fields.patterns import Withheld

MODEL = "it chooses other models, or who serves them, past the models that a key may use"
HOST = "it names a host that is then called on the client's behalf, from the backend's network"
KEY = "it holds credentials or header fields, which are the operator's to choose"
STORED = (
    "it names, or makes, an object that is stored under the operator's account, "
    "which all clients share"
)
BILLING = "it changes what the operator pays for"
CACHE = "it chooses a cache, or a name, that belongs to whichever client says it"
CODE = "it is code, or a setting of the server, that does not concern one request alone"


def rows(
    reason: str,
    source: str,
    *paths: str,
    harmless: tuple[str | bool, ...] = (),
    address: bool = False,
    optional: bool = False,
) -> tuple[Withheld, ...]:
    """See adapters.client_fields.patterns.Withheld."""
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
