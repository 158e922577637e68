"""Peers that run in their own environment: one process each, with lines of JSON.

A peer script (peers/) gets a folder of weights and settings as arguments and prints one line with
its name, or with the reason why it cannot run. Then it answers each line `{"prompts", "tokens"}`
with one line of `Answer`. It is idle between its turns, so that it does not slow the other side.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.engine.timing import Run, Took

SCRIPTS = Path(__file__).parent / "peers"


class PeerMissing(RuntimeError):
    """The peer is not installed or cannot run this model; the message says which."""


class Hello(Struct, frozen=True, kw_only=True):
    """A peer's first line."""

    name: str = ""
    refused: str = ""


class Ask(Struct, frozen=True, kw_only=True):
    prompts: Sequence[list[int]]
    tokens: int


class Answer(Struct, frozen=True, kw_only=True):
    """A run as a peer reports it, seconds."""

    tokens: list[list[int]]
    whole_wall: float
    whole_cpu: float
    decode_wall: float
    decode_cpu: float


class Peer:
    """A peer's process. Raises PeerMissing if it does not start; must be closed."""

    def __init__(self, python: str, script: str, *arguments: str) -> None:
        if not python:
            raise PeerMissing("no --peer-python given: the interpreter of the peer's environment")
        command = [python, str(SCRIPTS / script), *arguments]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as exc:
            raise PeerMissing(f"{python} cannot be run: {exc}") from exc
        hello = msgspec.json.decode(self._read(), type=Hello)
        if hello.refused:
            raise PeerMissing(hello.refused)
        self.name = hello.name

    def run(self, prompts: Sequence[list[int]], tokens: int) -> Run:
        assert self._process.stdin is not None
        ask = Ask(prompts=prompts, tokens=tokens)
        self._process.stdin.write(msgspec.json.encode(ask) + b"\n")
        self._process.stdin.flush()
        answer = msgspec.json.decode(self._read(), type=Answer)
        return Run(
            tokens=answer.tokens,
            whole=Took(wall=answer.whole_wall, cpu=answer.whole_cpu),
            decode=Took(wall=answer.decode_wall, cpu=answer.decode_cpu),
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _read(self) -> bytes:
        """The next line of JSON; skips lines that libraries print."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"{"):
                return line
        raise PeerMissing(f"the peer exited with status {self._process.wait()}")


class Options(argparse.Namespace):
    peer_python: str
    shapes: list[str]
    dtype: str
    context: int
    prefill: int
    tokens: int
    rounds: int
    seconds: float
    threads: int


def options(description: str, dtypes: Sequence[str]) -> Options:
    """The command line that all benchmarks with such peers share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--peer-python", default="", help="Python interpreter of the peer's environment"
    )
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=["125m"])
    parser.add_argument("--dtype", choices=dtypes, default=dtypes[0], help="of the peer")
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=140)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args(namespace=Options())


def skip(exc: PeerMissing) -> int:
    """A missing peer is reported and is not a failure."""
    print(f"skipped: {exc}", file=sys.stderr)
    return 0
