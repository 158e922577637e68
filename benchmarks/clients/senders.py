"""Programs that send chats as their users would, each in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from tests.clients.install import install
from tests.clients.packages import CLIENTS, Client

CHATS = 40
_SCRIPTS = Path(__file__).parent / "scripts"
_NODE = Client(name="openai-node", node=("openai@7.57.0",))


class Account(Struct, frozen=True, kw_only=True):
    """Where the chats are sent. url: of the gateway, without `/v1`."""

    url: str
    key: str
    model: str

    @property
    def arguments(self) -> list[str]:
        return [self.url, self.key, self.model, str(CHATS)]


def _openai_python(account: Account) -> None:
    script = str(_SCRIPTS / "openai_python.py")
    subprocess.run([sys.executable, script, *account.arguments], check=True)


def _openai_node(account: Account) -> None:
    _run_node(_NODE, "openai_node.mjs", account)


def _ai_sdk(account: Account) -> None:
    _run_node(CLIENTS["ai-sdk"], "ai_sdk.mjs", account)


def _run_node(client: Client, script: str, account: Account) -> None:
    install(client)
    folder = str(client.folder)
    subprocess.run(["node", str(_SCRIPTS / script), *account.arguments, folder], check=True)


def _curl(account: Account) -> None:
    for number in range(CHATS):
        chat = {
            "model": account.model,
            "messages": [{"role": "user", "content": f"What is 17 + {number}?"}],
            "stream": number % 2 == 1,
        }
        command = [
            *("curl", "--silent", "--fail", "--no-buffer", f"{account.url}/v1/chat/completions"),
            *("--header", "content-type: application/json"),
            *("--header", f"authorization: Bearer {account.key}"),
            *("--data", json.dumps(chat)),
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


SENDERS: Mapping[str, Callable[[Account], None]] = {
    "openai-python": _openai_python,
    "openai-node": _openai_node,
    "AI SDK": _ai_sdk,
    "curl": _curl,
}
