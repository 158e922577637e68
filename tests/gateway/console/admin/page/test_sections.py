"""The page as HTML: its texts, and that nothing from a client becomes markup."""

import re
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.console.admin.page.recent_requests import recent_requests_section
from strowger_gateway.gateway.console.admin.page.traffic import Traffic, traffic_section
from strowger_gateway.gateway.console.admin.traffic.choice import TrafficChoice
from strowger_gateway.gateway.console.admin.traffic.reader import TrafficRead
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from strowger_gateway.gateway.observability.telemetry.recent_requests import RecentRequest
from strowger_gateway.gateway.routing.request_record import AttemptRecord
from strowger_gateway.gateway.storage.sql.traffic.counting import TrafficCell
from strowger_gateway.gateway.storage.sql.traffic.series import BackendSeries
from tests.gateway.console.admin.page.crowd import KEY, ask, crowded
from tests.gateway.serving import one_model, serving

asynchronous = pytest.mark.anyio
BEARER = {"authorization": f"Bearer {KEY}"}


@asynchronous
async def test_the_decisions_on_a_request_are_shown_as_text(tmp_path: Path) -> None:
    async with crowded(tmp_path) as up:
        await ask(up, 16)
        async with httpx.AsyncClient(base_url=up.url, headers=BEARER, timeout=60) as client:
            page = (await client.get("/admin/live")).text

    assert "north/large answered after south/large failed." in page
    assert "First candidate: south/large." in page
    assert "Not tried: cellar/small, cellar/medium." in page
    assert "No backend was tried:" in page


def test_what_clients_and_vendors_wrote_is_text() -> None:
    evil = "<script>alert('1')</script>\" onload=\"x"
    line = AccessLine(
        time=0.0,
        request_id="r",
        surface="openai",
        status=200,
        ms=1.0,
        model=evil,
        backend=evil,
        variant=evil,
        error=evil,
        attempts=(AttemptRecord(backend=evil, outcome=evil),),
        dropped=(evil,),
    )
    decision = RecentRequest(line=line, candidates=(evil,), ruled_out=((evil, evil),), refused=evil)

    page = recent_requests_section([decision])

    assert page.count("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&#34; onload=&#34;x") >= 8
    assert "<script" not in page
    assert 'onload="' not in page


LATE = AttemptRecord(backend="a/x", outcome="lost", ms=400)
BESIDE = AttemptRecord(backend="b/x", outcome="ok", ms=20, hedge=True)


@pytest.mark.parametrize(
    ("attempts", "error", "told"),
    [
        ((LATE, BESIDE), "",
         "b/x was tried as a hedge because a/x was late, and answered first."),
        ((AttemptRecord(backend="a/x", outcome="ok"),
          AttemptRecord(backend="b/x", outcome="lost", hedge=True)),
         "", "a/x was late, but answered before the hedge b/x."),
        ((AttemptRecord(backend="a/x", outcome="upstream_broken"),),
         "upstream_broken",
         "a/x broke off during the response: upstream_broken. Not tried: b/x."),
        ((AttemptRecord(backend="a/x", outcome="content_filter"),
          AttemptRecord(backend="c/x", outcome="ok")),
         "",
         "After content_filter, c/x replaced the other candidates. c/x answered after a/x "
         "failed.</p>"),
    ],
)  # fmt: skip
def test_the_backends_tried_and_the_reasons_are_shown(
    attempts: tuple[AttemptRecord, ...], error: str, told: str
) -> None:
    served = next((one.backend for one in attempts if one.outcome == "ok"), "a/x")
    line = AccessLine(
        time=0.0,
        request_id="r",
        surface="openai",
        status=200,
        ms=1.0,
        backend=served,
        error=error,
        attempts=attempts,
    )

    page = recent_requests_section([RecentRequest(line=line, candidates=("a/x", "b/x"))])

    assert f"First candidate: a/x. {told}" in page


def test_requests_are_drawn_by_backend_and_failures_separately() -> None:
    cells = (TrafficCell(time=1000, requests=10, errors=4, refused=1, attempts=12, failed=6),)
    nobody = (TrafficCell(time=1000, requests=5, refused=3, client_errors=2),)
    traffic = Traffic(
        choice=TrafficChoice(team="red & blue"),
        now=1005.0,
        found=TrafficRead(
            by_backend=(
                BackendSeries(model="m", backend="south", cells=cells),
                BackendSeries(model="m", backend="", cells=nobody),
            ),
            source="all_gateways",
        ),
        order=("south",),
        in_flight=0,
    )

    page = traffic_section(traffic)

    plot = page.partition('id="plot-rate"')[2].partition("</figure>")[0]
    drawn = re.findall(r'class="name">([^<]+)</span><span class="value">([^<]+)', plot)
    assert drawn == [
        ("south", "1"),
        ("errors", "0.8"),
        ("errors of clients", "0.4"),
        ("refused", "0.8"),
    ]
    assert "<title>00:16:40 UTC\nsouth: 1\nerrors: 0.8\n" in plot
    assert '<th scope="row">00:16:40 UTC</th><td class="n">1</td>' in plot
    where = "/admin/view/requests?since=5m&amp;status={}&amp;team=red+%26+blue"
    assert f'<a href="{where.format("error")}">4 of backends</a>' in page
    assert f'<a href="{where.format("client_error")}">2 of clients</a>' in page
    assert f'<a href="{where.format("refused")}">4 refused</a>' in page


@asynchronous
async def test_a_gateway_without_a_request_says_so(tmp_path: Path) -> None:
    config = one_model("http://127.0.0.1:9/v1", f"auth: {{admin_key: {KEY}}}")
    async with serving(config, tmp_path) as up:
        async with httpx.AsyncClient(base_url=up.url, headers=BEARER, timeout=60) as client:
            page = (await client.get("/admin")).text

    assert page.count("No data in this window.") == 4
    assert "No requests yet." in page
    assert "no responses yet" in page
