"""What a release stored: its configuration, its database and its spool, and how to read them back.

tests/fixtures/releases/VERSION/ has one of each, written by `python -m tests.releases.write`, and
`views.json`: what the commands and the API of that version read from them.
"""

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct

from tests.gateway.commanded import SOON_S, Commanded
from tests.gateway.forked_commands import forked, printed
from tests.stand_ins.provider import Answer, Received, answers, provider

FOLDER = Path(__file__).parents[1] / "fixtures" / "releases"
CONFIG, DATABASE, SPOOL = "config.yaml", "strowger.sqlite", "spool"
VIEWS, SECRETS = "views.json", "secrets.json"

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


class Secrets(Struct, frozen=True, kw_only=True):
    """Keys of clients: of the file, issued, and revoked. response: the id of a stored response."""

    of_the_file: str
    issued: str
    revoked: str
    response: str


def releases() -> list[Path]:
    return sorted(path for path in FOLDER.iterdir() if path.is_dir())


def copied(release: Path, folder: Path) -> Path:
    """Copy a release's files; return its configuration."""
    shutil.copytree(release, folder)
    return folder / CONFIG


def bearer(key: str) -> Mapping[str, str]:
    return {"authorization": f"Bearer {key}"}


async def fails_for_bad_models(request: Received, answer: Answer) -> None:
    if request.json["model"] == "bad":
        await answer.json({"error": {"message": "broken"}}, status=500)
    else:
        await answers(request, answer)


@asynccontextmanager
async def opened(config: Path) -> AsyncGenerator[Commanded, None]:
    """Serve stored files with today's program, in front of a provider that answers."""
    text = await asyncio.to_thread(config.read_text, "utf-8")
    async with (
        provider(fails_for_bad_models) as remote,
        forked(config, text, env={"PROVIDER": remote.base_url}) as gateway,
    ):
        yield gateway


async def output(config: Path, *words: str) -> str:
    """Run a command; return what it prints. Fails unless it succeeds."""
    status, found, complaints = await printed(
        *words, "--config", str(config), env={"PROVIDER": "http://127.0.0.1:9/v1"}
    )
    assert status == 0, complaints
    return found


async def spool_imported(config: Path) -> None:
    """Wait until the database has every row of the spool's finished files."""
    old = set((config.parent / SPOOL).glob("*.rows"))
    async with asyncio.timeout(SOON_S):
        while any(file.exists() for file in old):  # noqa: ASYNC110  another process imports
            await asyncio.sleep(0.05)


class _Sums(Struct, frozen=True, kw_only=True):
    rows: list[dict[str, object]]


class _Budget(Struct, frozen=True, kw_only=True):
    budget: str
    unit: str
    spent: float


class _Budgets(Struct, frozen=True, kw_only=True):
    budgets: list[_Budget]


class _Arm(Struct, frozen=True, kw_only=True):
    name: str
    units: int
    requests: int
    fallbacks: int


class _Observed(Struct, frozen=True, kw_only=True):
    variant: str
    units: int
    observations: int
    mean: float | None


class _Metric(Struct, frozen=True, kw_only=True):
    name: str
    variants: list[_Observed]


class _Report(Struct, frozen=True, kw_only=True):
    epoch: int
    excluded: int
    arms: list[_Arm]
    metrics: list[_Metric]


async def views(gateway: Commanded, secrets: Secrets) -> dict[str, Json]:
    """Read everything back through commands and the API: what no later version may change.

    Not the statistics of a report, which may improve, but what they are computed from.
    """
    config = gateway.config
    found: dict[str, Json] = {}
    by = "key,team,user,tag,model,backend,role"
    commands: tuple[tuple[str, object, tuple[str, ...]], ...] = (
        ("usage", _Sums, ("usage", "--from", "2026-01-01", "--by", by)),
        ("keys", list[dict[str, object]], ("keys", "list", "--all")),
        ("budgets", _Budgets, ("budgets",)),
        ("report", _Report, ("experiments", "report", "greeting")),
    )
    for name, shape, words in commands:
        shown = await output(config, *words, "--json")
        found[name] = msgspec.to_builtins(msgspec.json.decode(shown, type=shape))
    rows = (await output(config, "audit", "--limit", "100000", "--json")).splitlines()
    found["audit"] = [json.loads(row) for row in rows]
    async with gateway.client() as client:
        answer = await client.get(
            f"/v1/responses/{secrets.response}", headers=bearer(secrets.of_the_file)
        )
        found["response"] = answer.json()
        for name in ("of_the_file", "issued", "revoked"):
            key = cast(str, getattr(secrets, name))
            models = await client.get("/v1/models", headers=bearer(key))
            found[f"status with the key {name}"] = models.status_code
    return found
