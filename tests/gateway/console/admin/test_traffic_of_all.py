"""The traffic of two gateways on one PostgreSQL, as either of them shows it."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from tests.gateway.cli.command_line import run
from tests.gateway.commanded import SOON_S, Commanded
from tests.gateway.forked_commands import forked
from tests.gateway.serving import one_model, serving
from tests.stand_ins.postgres import Postgres
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

OPERATOR = "Bearer key-of-the-operator"
ASK = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
CONFIG = """
server: {{drain_delay_s: 0}}
store: {{url: "{store}", spool: {spool}}}
teams: [{{name: red}}, {{name: blue}}]
auth:
  mode: keys
  admin_key: key-of-the-operator
  keys:
    - {{name: a, key: key-of-a-00000000, team: red}}
    - {{name: b, key: key-of-b-00000000, team: blue}}
providers:
  - {{name: remote, adapter: openai, base_url: {url}, api_key: sk-of-the-operator}}
models:
  - {{name: chat, backends: [{{provider: remote, model: m-1}}]}}
limits: [{{name: b, who: {{key: b}}, requests: 1, per: day}}]
"""


@pytest.fixture(scope="module")
async def pair(
    postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[tuple[Commanded, Commanded]]:
    """Two gateways. Key a has sent three requests to the first, key b two to the second."""
    folder, database = tmp_path_factory.mktemp("pair"), postgres.new_database()
    async with provider() as remote:

        def config(name: str) -> str:
            return CONFIG.format(store=database, spool=folder / name, url=remote.base_url)

        async with (
            forked(folder / "one.yaml", config("one")) as one,
            forked(folder / "two.yaml", config("two")) as two,
        ):
            statuses = [await asked(one, "a") for _ in range(3)]
            statuses += [await asked(two, "b"), await asked(two, "b")]
            assert statuses == [200, 200, 200, 200, 429]
            yield one, two


async def asked(up: Commanded, key: str) -> int:
    async with up.client(authorization=f"Bearer key-of-{key}-00000000") as client:
        return (await client.post("/v1/chat/completions", json=ASK)).status_code


async def series(up: Commanded, query: str) -> dict[str, int]:
    """Sums of the counts over all backends and cells."""
    async with up.client(authorization=OPERATOR) as client:
        answer = await client.get(f"/admin/series?{query}")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["source"] == "all_gateways"
    points = [point for one in found["series"] for point in one["points"]]
    names = ("requests", "errors", "client_errors", "refused", "attempts")
    return {name: sum(point[name] for point in points) for name in names}


async def until(up: Commanded, query: str, requests: int) -> dict[str, int]:
    async with asyncio.timeout(SOON_S):
        while (found := await series(up, query))["requests"] != requests:  # noqa: ASYNC110  no event
            await asyncio.sleep(0.1)
    return found


@pytest.mark.parametrize("window", ["5m", "15m", "1h", "24h", "7d", "30d"])
async def test_either_gateway_shows_the_requests_of_both(
    pair: tuple[Commanded, Commanded], window: str
) -> None:
    for up in pair:
        found = await until(up, f"window={window}", 5)
        assert (found["refused"], found["errors"], found["client_errors"]) == (1, 0, 0)
        assert found["attempts"] == 4


@pytest.mark.parametrize(
    ("query", "requests"),
    [
        ("key=a", 3),
        ("key=b", 2),
        ("team=blue", 2),
        ("team=red&key=b", 0),
        ("model=chat&backend=remote/m-1", 4),
        ("model=nobody", 0),
    ],
)
async def test_what_is_filtered_is_of_both_too(
    pair: tuple[Commanded, Commanded], query: str, requests: int
) -> None:
    for up in pair:
        await until(up, f"window=1h&{query}", requests)


async def test_the_command_shows_the_same(pair: tuple[Commanded, Commanded]) -> None:
    await until(pair[0], "window=1h", 5)
    config = ("--config", str(pair[0].config))

    shown = await asyncio.to_thread(run, "traffic", *config)
    of_team = await asyncio.to_thread(run, "traffic", "--team", "blue", "--json", *config)
    nothing = await asyncio.to_thread(run, "traffic", "--model", "nobody", *config)

    rows = {line.split()[1]: line.split()[2:8] for line in shown.stdout.splitlines()[1:]}
    assert rows["remote/m-1"] == ["4", "0", "0", "0", "4", "0"]
    assert rows["–"] == ["1", "0", "0", "1", "0", "0"]
    assert '"source":"all_gateways"' in of_team.stdout
    assert nothing.stderr == "No requests in the last 1h.\n"


async def test_the_page_says_that_it_shows_all_and_keeps_the_filters(
    pair: tuple[Commanded, Commanded],
) -> None:
    one, _ = pair
    await until(one, "window=24h&team=blue", 2)
    async with one.client(authorization=OPERATOR) as client:
        answer = await client.get("/admin?window=24h&team=blue&quantile=p99")
        live = await client.get("/admin/live?window=24h&team=blue&quantile=p99")

    page = answer.text
    assert "All gateways that share the store." in page
    assert "2 total" in page
    assert '<option value="blue" selected>' in page
    assert '<option value="p99" selected>' in page
    assert "/admin?window=7d&amp;quantile=p99&amp;team=blue" in page
    assert "status=refused&amp;team=blue" in page
    assert live.status_code == 200
    assert 'id="traffic-filters"' not in live.text


async def test_the_page_is_in_chinese_for_those_who_prefer_it(
    pair: tuple[Commanded, Commanded],
) -> None:
    async with pair[0].client(
        authorization=OPERATOR, **{"accept-language": "zh-CN,zh;q=0.9"}
    ) as client:
        page = (await client.get("/admin")).text

    assert "共用该数据库的全部网关实例。" in page
    assert "All gateways that share the store." not in page


async def test_a_gateway_without_a_store_says_what_is_missing(tmp_path: Path) -> None:
    config = one_model("http://127.0.0.1:9/v1", "auth: {admin_key: key-of-the-operator}")
    headers = {"authorization": OPERATOR}
    async with serving(config, tmp_path) as up:
        async with httpx.AsyncClient(base_url=up.url, headers=headers, timeout=60) as client:
            short = await client.get("/admin/series")
            long = await client.get("/admin/series?window=24h")
            of_key = await client.get("/admin/series?key=a")
            page = (await client.get("/admin?window=24h")).text

    assert short.json()["source"] == "no_store"
    assert (long.status_code, of_key.status_code) == (503, 503)
    assert "read from the store, and this gateway has none" in long.json()["error"]["message"]
    assert "This gateway only: it has no store. More than an hour back" in page


async def test_while_the_store_is_away_the_page_shows_this_gateway_and_says_so(
    tmp_path: Path,
) -> None:
    async with provider() as remote:
        text = CONFIG.format(
            store="postgresql://nobody:x@127.0.0.1:9/none",
            spool=tmp_path / "spool",
            url=remote.base_url,
        )
        async with forked(tmp_path / "config.yaml", text) as up:
            assert await asked(up, "a") == 200
            async with up.client(authorization=OPERATOR) as client:
                found: httpx.Response = await client.get("/admin/series")
                long = await client.get("/admin/series?window=7d")
                page = (await client.get("/admin")).text

    assert found.json()["source"] == "store_away"
    assert sum(len(one["points"]) for one in found.json()["series"]) == 1
    assert long.status_code == 503
    assert "This gateway only: the store does not answer." in page
