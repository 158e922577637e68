"""The rows of the table: an attack, the gateway, what the victim sends, and what is promised."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.isolation.attacks import FORMS, Pieces
from benchmarks.isolation.floods import FLOODS
from benchmarks.isolation.fronts import FRONTS
from benchmarks.isolation.requests import GUIDED, PLAIN, chat

PROMISED_S: Final = 0.2
PROMISED_MB: Final = 100.0
_MORE_MB: Final = {"prompts-6x8mb": 250.0, "bridge-4mb": 250.0}
"""48 MB of permitted bodies, each as received, parsed, and encoded for the backend; and the child
process that tokenizes 4 MB of text in pieces, with its tokenizer."""
LOCAL: Final = "here/tiny-chat"
REMOTE: Final = "first/quick"
_QUICK: Final = chat("2 + 2", "quick")


class Row(Struct, frozen=True, kw_only=True):
    """attack: builds the requests, with the gateway's port. setup: of SETUPS. victim: the body of
    its chats, all of which `backend` answers. first_token: measure its streams' first token instead
    of whole answers. stores: its requests continue a stored response. longest_s, megabytes: what is
    promised; /healthz may take PROMISED_S.
    """

    attack: Callable[[int], Sequence[Pieces]]
    setup: str
    victim: bytes = PLAIN
    backend: str = LOCAL
    first_token: bool = False
    stores: bool = False
    longest_s: float = PROMISED_S
    megabytes: float = PROMISED_MB


def _form(name: str) -> Row:
    return Row(
        attack=lambda _: FORMS[name](),
        setup="engine",
        victim=GUIDED if name == "grammars" else PLAIN,
        megabytes=_MORE_MB.get(name, PROMISED_MB),
    )


def _remote(name: str, setup: str = "remote") -> Row:
    return Row(attack=FLOODS[name], setup=setup, victim=_QUICK, backend=REMOTE)


def _front(name: str) -> Row:
    return Row(attack=FRONTS[name], setup="few descriptors", victim=_QUICK, backend=REMOTE)


def _local(name: str, setup: str = "crowded engine") -> Row:
    victim = PLAIN[:-1] + b',"stream":true}'
    return Row(attack=FLOODS[name], setup=setup, victim=victim, first_token=True, longest_s=0.5)


ROWS: Final[Mapping[str, Row]] = {
    **{name: _form(name) for name in FORMS},
    "slow-530": _remote("slow-530"),
    "slow-530-streamed": _remote("slow-530-streamed"),
    "slow-530 of 200 keys": _remote("slow-530", "remote, 200 keys"),
    "answers-300": _local("answers-300"),
    "answers-300-priority-1": _local("answers-300-priority-1"),
    "answers-300 of 200 keys": _local("answers-300", "crowded engine, 200 keys"),
    "pages": _local("pages", "small cache"),
    "arguments-18mb": _remote("arguments-18mb", "guarded"),
    "arguments-4x18mb": _remote("arguments-4x18mb", "guarded"),
    "arguments-4x18mb-responses": _remote("arguments-4x18mb-responses", "guarded"),
    "answer-arguments-18mb": _remote("answer-arguments-18mb", "guarded"),
    "input-items": replace(_remote("input-items", "storing"), stores=True),
    "answer-frames": _remote("answer-frames"),
    "answer-comments": _remote("answer-comments"),
    "answer-empty-deltas": _remote("answer-empty-deltas"),
    "answer-64mb": _remote("answer-64mb"),
    "answer-endless-line": _remote("answer-endless-line"),
    "idle-connections-400": _remote("idle-connections-400", "few descriptors"),
    **{name: _front(name) for name in FRONTS},
}
