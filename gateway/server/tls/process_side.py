"""The certificates that a serving process answers with."""

from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.server.tls.files import TlsFiles
from strowger_gateway.gateway.server.tls.handshakes import ListenerContext


class TlsSide(ProcessSide[None, TlsFiles]):
    """context: of the listening sockets; `None` serves cleartext."""

    receives = TlsFiles

    def __init__(self, at: ProcessContext) -> None:
        files = at.first(TlsFiles)
        self.context = None if files is None else ListenerContext(files, at.registry)

    def on_message(self, message: TlsFiles) -> None:
        """Use other certificates for new connections; the leader has proved that they work."""
        if self.context is not None:
            self.context.use(message)
