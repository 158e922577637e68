"""The only module that uses azure-identity: tokens of Entra ID without a client secret.

https://learn.microsoft.com/en-us/python/api/overview/azure/identity-readme
"""

import time
from collections.abc import Callable

from azure.core.credentials import TokenCredential
from azure.core.exceptions import AzureError
from azure.core.pipeline.transport import RequestsTransport
from azure.identity import (
    AzureCliCredential,
    ManagedIdentityCredential,
    WorkloadIdentityCredential,
)

from strowger_gateway.gateway.backends.upstream.credentials.auto_refresh import ExpiringValue
from strowger_gateway.gateway.backends.upstream.credentials.library_http import LibraryCalls
from strowger_gateway.gateway.backends.upstream.credentials.library_tokens import Bearer
from strowger_gateway.gateway.config.schema.connection import Azure
from strowger_gateway.schemas.secret import Secret


class EntraTokens:
    """See TokenSource. A new credential per token, because the library's own cache theirs.

    calls: makes the HTTP calls for one token. scope: the token's audience.
    """

    def __init__(
        self, azure: Azure, scope: str, calls: Callable[[], LibraryCalls], *, upstream: str
    ) -> None:
        self._azure = azure
        self._scope = scope
        self._calls = calls
        self._upstream = upstream

    def bearer(self) -> ExpiringValue[Bearer]:
        """See TokenSource."""
        calls = self._calls()
        with calls.session() as session:
            transport = RequestsTransport(session=session, session_owner=False)
            try:
                token = self._credential(transport).get_token(self._scope)
            except (AzureError, ValueError, OSError) as exc:
                raise calls.error(exc, upstream=self._upstream) from exc
        return ExpiringValue(
            value=Bearer(token=Secret(token.token)), lifetime_s=token.expires_on - time.time()
        )

    def _credential(self, transport: RequestsTransport) -> TokenCredential:
        azure = self._azure
        match azure.identity:
            case "managed":
                return ManagedIdentityCredential(
                    client_id=azure.client_id, transport=transport, retry_total=0
                )
            case "workload":
                return WorkloadIdentityCredential(
                    tenant_id=azure.tenant_id,
                    client_id=azure.client_id,
                    token_file_path=azure.token_file,
                    disable_instance_discovery=True,
                    transport=transport,
                    retry_total=0,
                )
            case "cli":
                return AzureCliCredential(tenant_id=azure.tenant_id or "")
