"""A gateway whose vendor scripts two arms and a judge, and the command that replays through it."""

import asyncio
import hashlib
import json
import os
import re
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from click.testing import Result
from msgspec import Struct

from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret
from tests.gateway.cli.command_line import run
from tests.gateway.commanded import Commanded
from tests.gateway.forked_commands import forked
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Behaviour, Provider, Received, provider

ROOT = Path(__file__).parents[4]
KEY = "key-of-the-replay"
ENV = {"STROWGER_API_KEY": KEY}
PRICED = """
prices:
  - {match: v/old, input: 100, output: 100}
  - {match: v/new, input: 100, output: 100}
  - {match: v/judge, input: 100, output: 100}
"""
"""A hundredth of a cent per token: an answer of the vendor, of 10 tokens, costs a tenth."""

CALL_USD = 0.001
ARMS = (
    "--arms", "old,new", "--judge", "judge", "--answer-tokens", "100", "--judge-tokens", "100",
)  # fmt: skip


def config(base_url: str, store: Path, more: str = PRICED, adapter: str = "openai") -> str:
    return f"""
providers: [{{name: v, adapter: {adapter}, api_key: k, base_url: '{base_url}'}}]
auth: {{mode: keys, admin_key: key-of-the-operator, keys: [{{name: replayer, key: {KEY}}}]}}
store: {{url: 'sqlite:///{store}'}}
models:
  - {{name: old, retry: {{backoff_s: 0}}, backends: [{{provider: v, model: old}}]}}
  - {{name: new, retry: {{backoff_s: 0}}, backends: [{{provider: v, model: new}}]}}
  - {{name: judge, retry: {{backoff_s: 0}}, backends: [{{provider: v, model: judge}}]}}
{more}
"""


def new_wins(prompt: str) -> bool:
    """For 60 % of all prompts."""
    return hashlib.sha256(prompt.encode()).digest()[0] < 0.6 * 256


_ANSWER = re.compile(r"<<<answer ([AB]) [0-9a-f]+\n(.*?)\nanswer", re.DOTALL)
_ASKED = re.compile(r"\[user\] (.*)")


def said_to(request: Received) -> str:
    """The text of the last message."""
    turns = cast("list[dict[str, str]]", request.json["messages"])
    return turns[-1]["content"]


def verdict_on(request: Received) -> str:
    """The letter of the better answer, by `new_wins`."""
    text = said_to(request)
    shown: dict[str, str] = dict(_ANSWER.findall(text))
    asked = _ASKED.findall(text)[-1]
    better = "new" if new_wins(asked) else "old"
    return next(letter for letter, answer in shown.items() if answer.startswith(better))


async def behave(request: Received, answer: Answer) -> None:
    """Arms name themselves and repeat the prompt; the judge decides by `new_wins`."""
    model = str(request.json["model"])
    if model == "judge":
        verdict = {"reason": "it is better", "verdict": verdict_on(request)}
        await answer.chat(json.dumps(verdict))
    else:
        await answer.chat(f"{model} says: {said_to(request)}")


def written(path: Path, lines: Sequence[Mapping[str, object]]) -> Path:
    """A file with a JSON object in each line."""
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


class Site(Struct, frozen=True, kw_only=True, eq=False):
    """folder: with config.yaml, the store and files of prompts."""

    up: Serving
    vendor: Provider
    folder: Path

    @property
    def words(self) -> list[str]:
        return ["--config", str(self.folder / "config.yaml"), "--url", self.up.url]

    def file(self, lines: Sequence[Mapping[str, object]], name: str = "prompts.jsonl") -> Path:
        return written(self.folder / name, lines)

    async def replay(
        self, *words: str, name: str = "trial", key: str = KEY, url: str = ""
    ) -> Result:
        """url: of another gateway."""
        site = [*self.words[:3], url or self.up.url]
        env = {**os.environ, "STROWGER_API_KEY": key}
        return await asyncio.to_thread(run, "experiments", "replay", name, *words, *site, env=env)

    async def read(self, *words: str) -> Result:
        return await asyncio.to_thread(run, "experiments", *words, *self.words[:2])

    async def report(self, name: str = "trial") -> dict[str, Any]:
        found = await self.read("replay-report", name, "--json")
        assert found.exit_code == 0, found.output
        return json.loads(found.output)

    def asked(self, *models: str) -> list[Received]:
        """What the vendor was asked, of some models."""
        return [one for one in self.vendor.requests if one.json["model"] in models]

    @asynccontextmanager
    async def started(
        self, *words: str, stderr: int = asyncio.subprocess.STDOUT
    ) -> AsyncGenerator[asyncio.subprocess.Process]:
        """The command as a process of its own."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "strowger_gateway.gateway.cli", "experiments", "replay", "trial",
            *words, *self.words,
            cwd=ROOT,
            env={**os.environ, **ENV, "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()


@asynccontextmanager
async def site(
    folder: Path, behaviour: Behaviour = behave, more: str = PRICED, adapter: str = "openai"
) -> AsyncGenerator[Site]:
    """A gateway with its vendor, and the same configuration in a file for the command."""
    async with provider(behaviour) as vendor:
        text = config(vendor.base_url, folder / "store.db", more, adapter)
        (folder / "config.yaml").write_text(text)
        open_store(Secret(f"sqlite:///{folder / 'store.db'}")).prepare()
        async with serving(text, folder) as up:
            yield Site(up=up, vendor=vendor, folder=folder)


def prompts(count: int, units: int = 0) -> list[dict[str, object]]:
    """Different questions; of so many units, 0 for one each."""
    return [
        {
            "messages": [{"role": "user", "content": f"question {number}"}],
            "unit": f"unit {number % (units or count)}",
        }
        for number in range(count)
    ]


class Served(Struct, frozen=True, kw_only=True, eq=False):
    """As Site, of `strowger serve` as a process."""

    up: Commanded
    vendor: Provider
    folder: Path

    async def run(self, *words: str) -> Result:
        """Run a command of `strowger experiments` on its configuration."""
        more = ["--config", str(self.folder / "config.yaml")]
        if words[0] == "replay":
            more += ["--url", self.up.url]
        env = {**os.environ, **ENV}
        return await asyncio.to_thread(run, "experiments", *words, *more, env=env)


@asynccontextmanager
async def served(
    folder: Path, behaviour: Behaviour = behave, more: str = PRICED
) -> AsyncGenerator[Served]:
    async with provider(behaviour) as vendor:
        text = config(vendor.base_url, folder / "store.db", more)
        async with forked(folder / "config.yaml", text, folder=folder) as up:
            yield Served(up=up, vendor=vendor, folder=folder)
