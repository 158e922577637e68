"""Check `server.tls`: that its files can be used together, and that they do so for a while."""

import time

from strowger_gateway.gateway.config.problems import Path, Problems
from strowger_gateway.gateway.config.schema.config import Config


def check_listener_tls(config: Config, problems: Problems) -> None:
    """Read the files, if the settings are valid so far."""
    tls = config.server.tls
    path: Path = ("server", "tls")
    if tls is None or problems.under(path) or problems.at(path):
        return
    if tls.client_ca is None and tls.client_certificates == "optional":
        problems.warn((*path, "client_certificates"), "has no effect without client_ca")
    # Late: OpenSSL, for those who serve TLS.
    from strowger_gateway.gateway.server.tls.files import TlsFault, read_files
    from strowger_gateway.gateway.server.tls.inspection import inspect

    try:
        files = read_files(tls)
        found = inspect(files)
    except TlsFault as exc:
        problems.add((*path, exc.field), exc.why)
        return
    if tls.key_password.reveal() and not files.encrypted:
        problems.warn((*path, "key_password"), "has no effect: the key is not encrypted")
    for field, words in found.warnings(time.time()):
        problems.warn((*path, field), words)
