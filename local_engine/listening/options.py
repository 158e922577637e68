"""The command-line options of an engine that listens on TCP."""

import argparse
from collections.abc import Mapping

from strowger_gateway.local_engine.listening.tcp_listener import Listening, check_listening
from strowger_gateway.local_engine.protocol.address import TcpAddress, parse_address
from strowger_gateway.local_engine.protocol.frame_intake import (
    LEAST_REQUEST_BYTES,
    MAX_REQUEST_BYTES,
)
from strowger_gateway.local_engine.protocol.frames import MAX_FRAME_BYTES
from strowger_gateway.local_engine.protocol.mutual_tls import TlsPaths
from strowger_gateway.schemas.errors import InvalidConfig

DRAIN_S = 30.0
"""Default of --drain-s."""


def add_listening(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--listen", type=_address, help="HOST:PORT")
    for name in ("cert", "key", "ca"):
        parser.add_argument(f"--tls-{name}", default="")
    parser.add_argument("--tls-allow", action="append", default=[])
    parser.add_argument("--max-connections", type=int, default=256)
    parser.add_argument("--max-request-bytes", type=_bytes, default=MAX_REQUEST_BYTES)
    parser.add_argument("--drain-s", type=float, default=DRAIN_S)


def listening_of(options: argparse.Namespace) -> Listening:
    """Raises InvalidConfig, naming the option."""
    given = {name: str(getattr(options, f"tls_{name}")) for name in ("cert", "key", "ca")}
    listening = Listening(
        address=options.listen,
        tls=tls_paths(given),
        allow=tuple(options.tls_allow),
        connections=options.max_connections,
        max_request=options.max_request_bytes,
    )
    check_listening(listening)
    return listening


def tls_paths(given: Mapping[str, str]) -> TlsPaths | None:
    """Return the files of `cert`, `key` and `ca`, or `None` if none is given.

    Raises InvalidConfig if only some are.
    """
    missing = [f"--tls-{name}" for name, value in given.items() if not value]
    if not missing:
        return TlsPaths(cert=given["cert"], key=given["key"], ca=given["ca"])
    if len(missing) < len(given):
        raise InvalidConfig((f"{' and '.join(missing)} missing: mutual TLS needs all three",))
    return None


def _bytes(text: str) -> int:
    found = int(text)
    if not LEAST_REQUEST_BYTES <= found <= MAX_FRAME_BYTES:
        raise argparse.ArgumentTypeError(
            f"{found} must be at least {LEAST_REQUEST_BYTES} and at most {MAX_FRAME_BYTES}"
        )
    return found


def _address(text: str) -> TcpAddress:
    try:
        return parse_address(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc
