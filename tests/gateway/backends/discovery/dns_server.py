"""A small DNS server on loopback, over UDP and TCP, whose records a test changes."""

import socket
import socketserver
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

UDP_BYTES = 512
"""A longer answer is truncated, so that the client asks again over TCP."""


class DnsServer:
    """records: by name and type, `("pool.test.", "A")`.

    rcodes: answers of a kind of question by an error. silent: questions of these types, or for
    these names, get no answer. failing: seconds after which questions for these names get SERVFAIL.
    asked: the questions so far. ttl: of all records, seconds.
    """

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], list[str]] = {}
        self.rcodes: dict[str, dns.rcode.Rcode] = {}
        self.silent: set[str] = set()
        self.failing: dict[str, float] = {}
        self.asked: list[tuple[str, str, str]] = []
        self.ttl = 1
        self.address = ""

    def answer(self, body: bytes, over: str) -> bytes | None:
        """Return the answer to a question."""
        query = dns.message.from_wire(body)
        question = query.question[0]
        name, kind = question.name.to_text(), dns.rdatatype.to_text(question.rdtype)
        self.asked.append((name, kind, over))
        if kind in self.silent or name in self.silent:
            return None
        response = dns.message.make_response(query)
        if name in self.failing:
            time.sleep(self.failing[name])
            response.set_rcode(dns.rcode.SERVFAIL)
            return response.to_wire()
        if kind in self.rcodes:
            response.set_rcode(self.rcodes[kind])
            return response.to_wire()
        found = self.records.get((name, kind), [])
        if found:
            response.answer.append(dns.rrset.from_text_list(name, self.ttl, "IN", kind, found))
        elif not any(known == name for known, _ in self.records):
            response.set_rcode(dns.rcode.NXDOMAIN)
        wire = response.to_wire()
        if over == "udp" and len(wire) > UDP_BYTES:
            response.answer.clear()
            response.flags |= dns.flags.TC
            wire = response.to_wire()
        return wire


@contextmanager
def running_dns(port: int = 0) -> Generator[DnsServer]:
    """Serve until the block ends, on one port for both protocols; 0: any."""
    server = DnsServer()

    class Datagram(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            body, sock = self.request
            answer = server.answer(body, "udp")
            if answer is not None:
                sock.sendto(answer, self.client_address)

    class Stream(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            sock: socket.socket = self.request
            size = int.from_bytes(sock.recv(2, socket.MSG_WAITALL), "big")
            answer = server.answer(sock.recv(size, socket.MSG_WAITALL), "tcp")
            if answer is not None:
                sock.sendall(len(answer).to_bytes(2, "big") + answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", port), Stream) as tcp:
        port = int(tcp.server_address[1])
        with socketserver.ThreadingUDPServer(("127.0.0.1", port), Datagram) as udp:
            server.address = f"127.0.0.1:{port}"
            threads = [
                threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.02})
                for one in (tcp, udp)
            ]
            for thread in threads:
                thread.start()
            try:
                yield server
            finally:
                tcp.shutdown()
                udp.shutdown()
                for thread in threads:
                    thread.join()
