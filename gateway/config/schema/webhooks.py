"""The shape of `webhooks` in config.yaml: where alerts are sent."""

from collections.abc import Mapping

from msgspec import Struct

from strowger_gateway.gateway.config.schema.units import Name, Path, Seconds
from strowger_gateway.schemas.secret import Secret


class Webhook(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A receiver of alerts.

    url:     secret, because many contain a token. Private addresses are allowed.
    secret:  the key of the signature. headers: sent in addition; all of them secrets.
    budgets: names, or prefixes ending in `*`, of budgets whose alerts it gets.
    """

    name: Name
    url: Secret
    secret: Secret
    budgets: tuple[Name, ...] = ("*",)
    headers: Mapping[str, Secret] = {}
    timeout_s: Seconds = 10.0
    ca_file: Path | None = None
    proxy: Secret | None = None
