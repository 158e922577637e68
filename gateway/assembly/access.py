"""Who may come in under one generation of the configuration: clients, operators, pages."""

from collections.abc import Iterator

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.access.auth import AdminKey, Keyring, MetricsAccess
from strowger_gateway.gateway.governance.access.client_address import ClientAddresses
from strowger_gateway.gateway.governance.identities.setup import known_issuers, token_callers
from strowger_gateway.gateway.governance.issued_keys.keys_in_effect import IssuedKeys
from strowger_gateway.gateway.governance.sessions.tokens import SessionTokens
from strowger_gateway.gateway.governance.sign_in.setup import sign_in_provider
from strowger_gateway.gateway.server.asgi.cross_site import CrossSiteGuard
from strowger_gateway.gateway.stages.request_part import Closing


class Access:
    """keyring: of clients. clients: their addresses. door: what is refused before a key is read.

    issued: the issued keys, shared by all generations. issuers: the identity providers of clients.
    admin_key, session_tokens, sign_in: of operators. metrics_access: of programs that scrape.
    """

    def __init__(self, config: Config, before: "Access | None") -> None:
        """before: of the previous generation, whose connections are taken over."""
        auth, shown = config.auth, config.logging.client_address
        self.issued = IssuedKeys() if before is None else before.issued
        self.clients = ClientAddresses(config.server.trusted_proxies, shown=shown)
        self.issuers = known_issuers(auth, None if before is None else before.issuers)
        tokens = token_callers(self.issuers, config.teams, config.plans)
        self.keyring = Keyring(auth, config.teams, self.issued, self.clients, tokens)
        self.admin_key = AdminKey(auth)
        self.session_tokens = SessionTokens(auth)
        self.sign_in = sign_in_provider(auth, None if before is None else before.sign_in)
        self.metrics_access = MetricsAccess(auth, self.keyring)
        self.door = _door(config)

    def closing(self) -> Iterator[Closing]:
        """Return what is closed with the last generation that uses it."""
        if self.issuers is not None:
            yield from self.issuers.keys
        if self.sign_in is not None:
            yield self.sign_in


def _door(config: Config) -> CrossSiteGuard | None:
    server, auth = config.server, config.auth
    closed = auth.mode == "none" and not auth.allow_open
    if not closed and not server.allowed_hosts:
        return None
    names = (server.host, *server.allowed_hosts)
    return CrossSiteGuard(names, server.cors.allow_origins, pages=auth.mode == "none")
