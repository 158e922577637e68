"""Certificates for a Redis server that speaks TLS, and for its clients."""

from pathlib import Path

import trustme


class Authority:
    """Certificates for a server and a client, and another authority. folder: of the files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        known, other = trustme.CA(), trustme.CA()
        self.ca, self.other_ca = folder / "ca.pem", folder / "other-ca.pem"
        self.server, self.client = folder / "server.pem", folder / "client.pem"
        self.stranger = folder / "stranger.pem"
        known.cert_pem.write_to_path(self.ca)
        other.cert_pem.write_to_path(self.other_ca)
        for authority, name, file in (
            (known, "127.0.0.1", self.server),
            (known, "gateway.test", self.client),
            (other, "gateway.test", self.stranger),
        ):
            authority.issue_cert(name).private_key_and_cert_chain_pem.write_to_path(file)

    def options(self, clients: str) -> tuple[str, ...]:
        """Of the server. clients: "yes": they need a certificate."""
        own = str(self.server)
        files = ("--tls-cert-file", own, "--tls-key-file", own, "--tls-ca-cert-file", str(self.ca))
        return (*files, "--tls-auth-clients", clients)

    def url(self, port: int) -> str:
        """With the client's certificate."""
        own = f"&ssl_certfile={self.client}&ssl_keyfile={self.client}"
        return f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={self.ca}{own}"
