"""A simulated crowd: people request sums from a gateway and vote on whether the answer is right.

    python docs/examples/ab-test/crowd.py --url http://127.0.0.1:8080 --admin-key demo

Most people ask a few questions and a few ask many (Pareto), as real users do. One variant answers
all questions of a person. The crowd continues until the report has a verdict.
"""

import argparse
import asyncio
import random
import re
import sys
from collections.abc import Iterator, Sequence

import httpx
from msgspec import Struct, json
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

EXPERIMENT, METRIC, MODEL = "sums", "right", "chat"
AT_ONCE = 8
MOST_QUESTIONS = 40
LOOK_EVERY = 20
"""People between two checks of the report."""


class Person(Struct, frozen=True, kw_only=True):
    """questions: the two numbers of each sum."""

    name: str
    questions: tuple[tuple[int, int], ...]


class Settings(Struct, frozen=True, kw_only=True):
    url: str
    people: int
    seed: int
    admin_key: str
    key: str


class Verdict(Struct, frozen=True):
    """The fields of a report that the crowd reads."""

    kind: str
    sentence: str


def crowd(people: int, seed: int) -> Iterator[Person]:
    chance = random.Random(seed)
    for number in range(people):
        count = min(round(chance.paretovariate(1.5)), MOST_QUESTIONS)
        sums = tuple((chance.randint(1, 49), chance.randint(1, 49)) for _ in range(count))
        yield Person(name=f"person-{seed}-{number}", questions=sums)


async def ask(client: httpx.AsyncClient, person: Person) -> list[bool]:
    """Send the questions of one person in sequence, with a vote after each answer."""
    votes: list[bool] = []
    for one, other in person.questions:
        answer = await client.post(
            "/v1/chat/completions",
            json={
                "model": MODEL,
                "user": person.name,
                "max_tokens": 24,
                "messages": [{"role": "user", "content": f"What is {one} + {other}?"}],
            },
        )
        answer.raise_for_status()
        text = str(answer.json()["choices"][0]["message"]["content"])
        right = bool(re.search(rf"(?<!\d){one + other}(?!\d)\W*$", text.strip()))
        vote = await client.post(
            "/v1/feedback",
            json={
                "request_id": answer.headers["x-gateway-request-id"],
                "metric": METRIC,
                "value": right,
            },
        )
        vote.raise_for_status()
        votes.append(right)
    return votes


async def look(client: httpx.AsyncClient, admin_key: str) -> Verdict:
    answer = await client.get(
        f"/admin/experiments/{EXPERIMENT}", headers={"authorization": f"Bearer {admin_key}"}
    )
    answer.raise_for_status()
    return json.decode(answer.content, type=Verdict)


async def run(settings: Settings) -> int:
    """The process's exit status: 0 with a verdict, 3 without."""
    console = Console()
    headers = {"authorization": f"Bearer {settings.key}"} if settings.key else {}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    people = list(crowd(settings.people, settings.seed))
    verdict = Verdict("undecided", "no requests yet")
    async with httpx.AsyncClient(base_url=settings.url, headers=headers, timeout=60) as client:
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("people", total=len(people))
            for start in range(0, len(people), LOOK_EVERY):
                group = people[start : start + LOOK_EVERY]
                await together(client, group)
                progress.advance(task, len(group))
                seen = await look(client, settings.admin_key)
                if seen.sentence != verdict.sentence:
                    progress.console.print(f"{start + len(group):5d} people: {seen.sentence}")
                verdict = seen
                if verdict.kind not in ("undecided", "alike"):
                    break
    return 0 if verdict.kind == "better" else 3


async def together(client: httpx.AsyncClient, people: Sequence[Person]) -> None:
    """Run people concurrently, up to a limit. The first failure stops the crowd."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(person: Person) -> None:
        async with gate:
            await ask(client, person)

    async with asyncio.TaskGroup() as group:
        for person in people:
            group.create_task(one(person))


def settings_of(arguments: Sequence[str] | None = None) -> Settings:
    parser = argparse.ArgumentParser(description="A simulated crowd that requests sums and votes.")
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--people", type=int, default=2_000, help="maximum number of people")
    parser.add_argument("--seed", type=int, default=1, help="seed of the crowd")
    parser.add_argument("--admin-key", default="demo", help="to read the report")
    parser.add_argument("--key", default="", help="client key, if the gateway requires one")
    return Settings(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(asyncio.run(run(settings_of())))
