"""A feature is one folder and its line in `assembly/parts.py`: this adds one, and uses all of it.

The gateway runs as `strowger serve`, in one process and with two workers, from a copy of the tree
in which nothing but `assembly/parts.py` is different.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.gateway.commanded import SOON_S, Commanded, commanded
from tests.gateway.parts.adding import environment, tree_with
from tests.stand_ins.provider import Answer, Provider, Received, provider

STROWGER = (sys.executable, "-m", "strowger_gateway.gateway.cli")
OPERATOR = {"authorization": "Bearer key-of-the-operator"}

CONFIG = """
auth: {{mode: none, admin_key: key-of-the-operator}}
server: {{workers: {workers}}}
store: {{url: "sqlite:///{folder}/store.db", spool: "{folder}/spool"}}
providers: [{{name: p, adapter: openai, base_url: "{url}", api_key: k}}]
models: [{{name: chat, backends: [{{provider: p, model: m}}]}}]
courtesy: {{rude: [blockhead], most: {most}}}
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with the part."""
    root = tmp_path_factory.mktemp("tree")
    return tree_with("tests.gateway.parts.courtesy.part:CourtesyPart", root)


def strowger(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command; return what it printed."""
    env = {**os.environ, **environment(tree), "COLUMNS": "200"}
    return subprocess.run(
        [*STROWGER, *words], cwd=tree, env=env, capture_output=True, text=True, check=False
    )


async def _answers(request: Received, answer: Answer) -> None:
    await answer.begin_stream()
    await answer.text("Good morning, blockhead, ")
    await answer.text("and good night.")
    await answer.end_stream()


@asynccontextmanager
async def polite(
    tree: Path, folder: Path, workers: int
) -> AsyncGenerator[tuple[Commanded, Provider], None]:
    async with provider(_answers) as vendor:
        text = CONFIG.format(folder=folder, url=vendor.base_url, most=3, workers=workers)
        env = environment(tree)
        async with commanded(
            folder / "c.yaml", text, command=STROWGER, env=env, folder=folder
        ) as gateway:
            yield gateway, vendor


async def ask(gateway: Commanded, text: str) -> httpx.Response:
    body = {"model": "chat", "stream": True, "messages": [{"role": "user", "content": text}]}
    async with gateway.client() as client:
        return await client.post("/v1/chat/completions", json=body)


async def read(gateway: Commanded, path: str) -> httpx.Response:
    async with gateway.client(**OPERATOR) as client:
        return await client.get(path)


async def until_counted(gateway: Commanded, rude: int) -> None:
    """Wait until the leader has told every worker."""
    async with asyncio.timeout(SOON_S):
        while (await read(gateway, "/admin/courtesy")).json()["rude"] != rude:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)


@pytest.mark.anyio
@pytest.mark.parametrize("workers", [1, 2])
async def test_a_part_adds_all_of_a_feature_by_one_line(
    workers: int, tree: Path, tmp_path: Path
) -> None:
    async with polite(tree, tmp_path, workers) as (gateway, vendor):
        # A filter of the stream, and a stage that lets requests pass.
        calm = await ask(gateway, "Good evening!")
        assert calm.status_code == 200
        assert "Good morning, dear, " in calm.text
        assert "blockhead" not in calm.text

        # Messages from every worker to the leader, and from the leader to every worker.
        for number in range(1, 4):
            assert (await ask(gateway, "Answer, blockhead!")).status_code == 200
            await until_counted(gateway, number)
        refused = await asyncio.gather(*(ask(gateway, "blockhead") for _ in range(6)))
        assert {one.status_code for one in refused} == {400}
        assert refused[0].json()["error"]["message"] == "be polite, please"
        assert len(vendor.requests) == 4

        # A metric of both workers, a view, and what is recorded.
        metrics = (await read(gateway, "/metrics")).text
        assert "strowger_courtesy_refused_total 6.0" in metrics
        view = (await read(gateway, "/admin/view/courtesy")).text
        assert "3 rude requests" in view
        listed = (await read(gateway, "/admin/requests")).json()
        moods = [one["attributes"]["mood"] for one in listed["requests"]]
        assert sorted(moods) == ["calm", *["rude"] * 9]
        logged = [line["attributes"] for line in gateway.access if "attributes" in line]
        assert logged.count({"mood": "rude"}) == 9

        # A reload that its side in each worker refuses, and one that it accepts.
        config = gateway.config.read_text()
        gateway.edit(config.replace("most: 3", "most: 2"))
        assert "courtesy.most: is 2, and 3 requests were rude" in await gateway.said("rejected")
        assert (await ask(gateway, "blockhead")).status_code == 400
        await gateway.reload(config.replace("most: 3", "most: 9"))
        assert (await ask(gateway, "blockhead")).status_code == 200


def test_its_section_has_errors_in_our_words(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    text = CONFIG.format(folder=tmp_path, url="http://127.0.0.1:1/v1", most=3, workers=2)
    file.write_text(text.replace("rude: [blockhead]", "rude: []"))
    empty = strowger(tree, "check", str(file))
    assert empty.returncode != 0
    assert "courtesy.rude: is empty; name a word, or remove courtesy" in empty.stderr
    file.write_text(text.replace("most", "mots"))
    unknown = strowger(tree, "check", str(file))
    assert 'courtesy.mots: unknown key; did you mean "most"?' in unknown.stderr
    file.write_text(text)
    assert strowger(tree, "check", str(file)).returncode == 0


def test_its_command_is_one_of_strowgers(tree: Path) -> None:
    assert "Judge the text TEXT." in strowger(tree, "--help").stdout
    assert strowger(tree, "courtesy", "--word", "blockhead", "you blockhead").stdout == "rude\n"
