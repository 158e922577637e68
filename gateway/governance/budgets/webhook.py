"""Send an alert to a webhook: signed, so that the receiver knows who sent it and when."""

import asyncio
import hmac
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.gateway.backends.upstream.transport import Transport
from strowger_gateway.gateway.config.schema.connection import Tls
from strowger_gateway.gateway.config.schema.webhooks import Webhook
from strowger_gateway.schemas.errors import InvalidConfig, UpstreamError

SIGNATURE: Final = "x-strowger-signature"
ALERT_ID: Final = "x-strowger-alert"
LARGEST_ANSWER: Final = 64 * 1024


class WebhookError(Exception):
    """The receiver has not accepted an alert; the text says why."""


def signature(secret: str, at: int, body: bytes) -> str:
    """Return `t=TIME,v1=DIGEST`: HMAC-SHA256 over `TIME.BODY`, in hexadecimal. at: Unix seconds."""
    digest = hmac.digest(secret.encode(), b"%d." % at + body, "sha256").hex()
    return f"t={at},v1={digest}"


async def send(
    webhook: Webhook, alert: str, body: bytes, clock: Callable[[], float] = time.time
) -> None:
    """Send an alert once. Raises WebhookError unless the receiver answers with 2xx in time."""
    parts = urlsplit(webhook.url.reveal())
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    own = {
        "content-type": "application/json",
        "user-agent": "strowger",
        **{name.lower(): value.reveal() for name, value in webhook.headers.items()},
        ALERT_ID: alert,
        SIGNATURE: signature(webhook.secret.reveal(), int(clock()), body),
    }
    outbound = Outbound(target=target, headers=tuple(own.items()), body=body)
    by = asyncio.get_running_loop().time() + webhook.timeout_s
    try:
        transport = await asyncio.to_thread(_transport, webhook, f"{parts.scheme}://{parts.netloc}")
    except InvalidConfig as exc:
        raise WebhookError("; ".join(exc.problems)) from exc
    try:
        reply = await transport.exchange(outbound, connect_by=by, head_by=by)
        try:
            await reply.body(by, LARGEST_ANSWER)
        finally:
            await reply.aclose()
    except UpstreamError as exc:
        raise WebhookError(exc.logged) from exc
    finally:
        await transport.aclose()
    if not 200 <= reply.status < 300:
        raise WebhookError(f"webhook {webhook.name}: answered with status {reply.status}")


def _transport(webhook: Webhook, origin: str) -> Transport:
    """Reading certificates takes 50 ms. The client is imported when there is something to send."""
    name, tls = f"webhook {webhook.name}", Tls(ca_file=webhook.ca_file)
    if webhook.proxy is None:
        from strowger_gateway.gateway.backends.upstream.wire import WireTransport

        return WireTransport(origin, name=name, tls=tls, max_connections=1)
    from strowger_gateway.gateway.backends.upstream.httpx_transport import HttpxTransport

    proxy = webhook.proxy.reveal()
    return HttpxTransport(origin, name=name, tls=tls, max_connections=1, proxy=proxy)
