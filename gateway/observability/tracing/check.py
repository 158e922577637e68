"""Cross-checks of `telemetry`: the collector's address and headers."""

import re
from urllib.parse import urlsplit

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The name of a header. https://www.rfc-editor.org/rfc/rfc9110#name-tokens"""

RESERVED = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection"})


def check_telemetry(config: Config, problems: Problems) -> None:
    otlp = config.telemetry.otlp
    if otlp is None:
        return
    place = ("telemetry", "otlp")
    if not problems.at((*place, "endpoint")) and not _is_usable(otlp.endpoint):
        text = "is not a base URL such as http://collector:4318; /v1/traces is appended"
        problems.add((*place, "endpoint"), text)
    for name, value in otlp.headers.items():
        if not _TOKEN.fullmatch(name) or re.search(r"[^\t\x20-\x7e]", value.reveal()):
            problems.add((*place, "headers", name), "is not a header")
        elif name.lower() in RESERVED:
            problems.add((*place, "headers", name), "is set by the gateway; remove it")


def _is_usable(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    plain = not parts.query and not parts.fragment and "@" not in parts.netloc
    visible = re.fullmatch(r"[\x21-\x7e]+", endpoint) is not None
    return usable and plain and visible and parts.scheme in ("http", "https")
