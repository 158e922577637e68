"""Installs the clients: a virtual environment or npm folder each, made again when its pins change.

Run as a program: `python -m tests.clients.install [NAME …]`; without names, all of them.
"""

import shutil
import subprocess
import sys

from tests.clients.packages import CLIENTS, LITELLM, RERANKERS, Client


def main(names: list[str]) -> None:
    known = {**CLIENTS, RERANKERS.name: RERANKERS, LITELLM.name: LITELLM}
    for client in [known[name] for name in names] or known.values():
        install(client)


def install(client: Client) -> None:
    """Does nothing where the same pins are installed. Raises CalledProcessError."""
    if client.installed:
        return
    print(f"installing {', '.join(client.pins)}", flush=True)
    shutil.rmtree(client.folder, ignore_errors=True)
    if client.python:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", client.folder], check=True)
        pip = [sys.executable, "-m", "pip", "--python", client.interpreter]  # ours chooses faster
        quiet = ["--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", *quiet, *client.python], check=True)
    else:
        client.folder.mkdir(parents=True)
        npm = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", client.folder]
        subprocess.run([*npm, *client.node], check=True)
    client.stamp.write_text("\n".join(client.pins))


if __name__ == "__main__":
    main(sys.argv[1:])
