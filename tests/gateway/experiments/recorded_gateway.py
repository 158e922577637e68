"""A gateway with one experiment and a store, and requests that are enrolled in it."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.experiments.background_jobs import ExperimentJobs
from strowger_gateway.gateway.experiments.experiment_service import ExperimentService
from strowger_gateway.gateway.experiments.process_side import ExperimentsSide
from strowger_gateway.gateway.observability.recording.rows_from_request import expand_rows
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentStatus, fingerprint
from strowger_gateway.gateway.routing.request_record import new_request_id
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import Row, SpoolEntry
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.store_access import StoreAccess
from strowger_gateway.schemas.secret import Secret
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Received, answers

ADMIN = "auth: {admin_key: key-of-the-operator}"
BEARER = {"authorization": "Bearer key-of-the-operator"}
ARMS = "{name: control, backend: a/old, weight: 50}, {name: treatment, backend: a/new, weight: 50}"
COMPLETION = {
    "id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "text": "hello", "finish_reason": "stop", "logprobs": None}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
}  # fmt: skip


def config(
    base_url: str, arms: str = ARMS, more: str = "", model_more: str = "", other: str = ""
) -> str:
    """more: settings of the experiment. model_more: of its model, which has both arms' backends.

    other: all other settings. The model `spare` has the backends of both arms and one more.
    """
    return f"""
providers: [{{name: a, adapter: openai, base_url: {base_url}, api_key: k}}]
models:
  - name: chat
    retry: {{backoff_s: 0, max_backoff_s: 0, attempts: 4}}
    breaker: {{min_requests: 1000}}
    backends:
      - {{provider: a, model: old, weight: 1}}
      - {{provider: a, model: new, weight: 1}}
      - {{provider: a, model: backup, weight: 0}}
{model_more}
  - name: spare
    backends: [{{provider: a, model: new}}, {{provider: a, model: old}}, {{provider: a, model: s}}]
experiments:
  - name: trial
    model: chat
    assign_by: header:x-session-id
    primary: thumbs_up
    variants: [{arms}]
{more}
{other}
"""


async def behave(request: Received, answer: Answer) -> None:
    """As OpenAI's server; a model named in the last message is down, or too small for it."""
    body = request.json
    if f"{body['model']} is full" in request.body.decode():
        error = {"message": "too long", "code": "context_length_exceeded", "param": "messages"}
        await answer.json({"error": error}, 400)
        return
    if f"{body['model']} is down" in request.body.decode():
        await answer.json({"error": {"message": "down"}}, 500)
    elif request.path.endswith("/completions") and "prompt" in body and not body.get("stream"):
        await answer.json(COMPLETION)
    else:
        await answers(request, answer)


def stand(running: Serving, standing: ExperimentStatus) -> None:
    """Push the state that the poller would push."""
    runtime = running.state.runtime
    marks = {fingerprint(one): standing for one in runtime.config.experiments}
    runtime.routing.experiments.push(marks)


async def ask(
    running: Serving, session: str = "", text: str = "hi", path: str = "/v1/chat/completions",
    body: Mapping[str, object] | None = None, headers: Mapping[str, str] | None = None,
    **more: object,
) -> httpx.Response:  # fmt: skip
    """Send a request of one session; `body` and `more`: in addition to model and messages."""
    given = {**(headers or {}), **({"x-session-id": session} if session else {})}
    sent: dict[str, object] = {**(body or {}), **more}
    if path.startswith("/v1/"):
        sent["model"] = "chat"
    if path.endswith("chat/completions"):
        sent.setdefault("messages", [{"role": "user", "content": text}])
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(f"{running.url}{path}", json=sent, headers=given, timeout=60)


async def variant_of(running: Serving, session: str) -> str:
    answer = await ask(running, session)
    assert answer.status_code == 200, answer.text
    return answer.headers.get("x-gateway-variant", "")


class Rows:
    """A Recorder that keeps rows until the test lets the store have them. file: its name there."""

    full = False

    def __init__(self, file: str) -> None:
        self.file = file
        self.place = 0
        self.rows: list[Row] = []

    def add(self, row: SpoolEntry) -> None:
        self.extend((row,))

    def extend(self, rows: Iterable[SpoolEntry]) -> None:
        self.rows += expand_rows(rows)


class Recorded(Struct, frozen=True, kw_only=True, eq=False):
    """A gateway with a store, and the hand that brings its records there."""

    running: Serving
    store: SqlStore
    recorder: Rows

    def settle(self) -> None:
        """Everything so far is in the store."""
        self.running.state.log.flush()
        recorder = self.recorder
        rows, recorder.rows = recorder.rows, []
        self.store.import_rows(recorder.file, recorder.place, recorder.place + len(rows), rows)
        recorder.place += len(rows)


@asynccontextmanager
async def recorded(
    text: str, folder: Path, check_interval_s: float = 0.1, store: SqlStore | None = None
) -> AsyncGenerator[Recorded, None]:
    """Serve with a store, by default the folder's own SQLite, with frequent polls."""
    store = store or open_store(Secret(f"sqlite:///{folder / 'strowger.db'}"))
    store.prepare()
    recorder = Rows(new_request_id())

    def equip(gateway: Gateway) -> None:
        gateway.log.recorder = recorder
        gateway.store = StoreAccess(store)
        side = gateway.side(ExperimentsSide)
        side.service = ExperimentService(
            gateway.store,
            recorder,
            gateway.runtime.routing.experiments,
            lambda: gateway.runtime.config.experiments,
            poll_interval_s=0.05,
        )
        side.jobs = ExperimentJobs(
            store,
            lambda: gateway.runtime.config.experiments,
            shown=lambda: True,
            check_interval_s=check_interval_s,
        )
        side.jobs.start()

    try:
        async with serving(text, folder, equip=equip) as running:
            yield Recorded(running=running, store=store, recorder=recorder)
            jobs = running.state.side(ExperimentsSide).jobs
            assert jobs is not None
            await jobs.close()
    finally:
        store.close()


async def report(up: Recorded) -> dict[str, Any]:
    """Return the report of experiment `trial`, as the operator gets it from the admin API."""
    async with httpx.AsyncClient(timeout=60) as client:
        url = f"{up.running.url}/admin/experiments/trial"
        return (await client.get(url, headers=BEARER)).json()
