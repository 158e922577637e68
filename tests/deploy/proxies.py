"""The shipped configurations of nginx and Caddy, started in front of a gateway on loopback."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trustme
from msgspec import Struct

from tests.stand_ins.ports.reserved import reserved_port

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
SOON_S = 60.0

_NGINX = """
daemon off; pid {folder}/nginx.pid; error_log stderr; events {{ }}
http {{
  proxy_ignore_headers X-Accel-Buffering;
  access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  include {folder}/strowger.conf;
}}
"""
"""The gateway also asks nginx not to buffer, by a header. nginx ignores it here, so that it is
`proxy_buffering off` in the shipped file that lets events pass one by one."""


class Proxy(Struct, frozen=True, kw_only=True):
    """A proxy that accepts connections. trust: for its certificate; `True` where it has none."""

    url: str
    trust: ssl.SSLContext | bool


Start = Callable[[Path, int, int], tuple[list[str], Proxy]]
"""Write the files of a proxy: folder, its port, the gateway's port. Returns its command."""


def replaced(text: str, *changes: tuple[str, str]) -> str:
    """Replace what an installation replaces. Each old text occurs exactly once."""
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def nginx(folder: Path, port: int, gateway: int) -> tuple[list[str], Proxy]:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(folder / "gateway.pem"))
    shipped = replaced(
        (DEPLOY / "nginx.conf").read_text(),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("server 127.0.0.1:8080", f"server 127.0.0.1:{gateway}"),
        ("/etc/nginx/tls/gateway.pem", f"{folder}/gateway.pem"),
        ("/etc/nginx/tls/gateway.key", f"{folder}/gateway.pem"),
    )
    (folder / "strowger.conf").write_text(shipped)
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder))
    trust = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    command = [_found("nginx"), "-p", str(folder), "-c", str(folder / "nginx.conf")]
    return command, Proxy(url=f"https://localhost:{port}", trust=trust)


def caddy(folder: Path, port: int, gateway: int) -> tuple[list[str], Proxy]:
    shipped = replaced(
        (DEPLOY / "Caddyfile").read_text(),
        ("\ngateway.example.com {", f"\nhttp://127.0.0.1:{port} {{"),
        ("reverse_proxy 127.0.0.1:8080", f"reverse_proxy 127.0.0.1:{gateway}"),
    )
    (folder / "Caddyfile").write_text("{\n\tadmin off\n}\n" + shipped)
    command = [_found("caddy"), "run", "--adapter", "caddyfile", "--config"]
    proxy = Proxy(url=f"http://127.0.0.1:{port}", trust=True)
    return [*command, str(folder / "Caddyfile")], proxy


@asynccontextmanager
async def running(start: Start, folder: Path, gateway: int) -> AsyncGenerator[Proxy, None]:
    """Run a proxy in front of the gateway at this port until the block ends."""
    port = reserved_port()
    command, proxy = start(folder, port, gateway)
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=log, stderr=log, env={"HOME": str(folder), "PATH": "/usr/bin:/bin"}
        )
    try:
        async with asyncio.timeout(SOON_S):
            while not await _accepts(port):
                assert process.returncode is None, (folder / "log").read_text()
                await asyncio.sleep(0.02)
        yield proxy
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def _found(name: str) -> str:
    path = shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin:/sbin:/bin")
    assert path is not None
    return path


def installed(name: str) -> bool:
    return shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin:/sbin:/bin") is not None
