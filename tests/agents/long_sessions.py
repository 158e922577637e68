"""Sessions of codex that are ten times as long as its context: step by step, with a fact in each.

The model is a stand-in without intelligence. It calls for one output of some thousand tokens after
the other, each with a fact. A request for a summary it answers with the facts that it contains, and
at the end it says all facts that it still has. So a summary that is lost anywhere is a fact that is
missing in the last text.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, cast

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.content.compaction.summary_request import TASK
from tests.agents.backends import MODELS, PROOFS, PROVIDER, with_custom_calls
from tests.agents.running import OFFLINE
from tests.agents.starting import KEY, program
from tests.agents.toolsets import toolset
from tests.gateway.backends.vendors import bedrock
from tests.gateway.backends.vendors.backend import KEY as VENDORS_KEY
from tests.gateway.backends.vendors.backend import begin, is_streamed
from tests.gateway.backends.vendors.dialect import USAGE, Call, Json, Said
from tests.gateway.backends.vendors.responses import COUNTS, NONE, EventStream, response
from tests.gateway.backends.vendors.rows import Vendor
from tests.gateway.commanded import Commanded, commanded
from tests.stand_ins.provider import Answer, Behaviour, Provider, Received, provider

CONTEXT: Final = 20_000
"""Tokens, of codex and of the models."""

COMPACTS_AT: Final = 16_000
STEPS: Final = 80
STEP_TOKENS: Final = 2_600
"""Of an output, as codex returns it: it cuts the middle out of longer ones."""

SESSION_TOKENS: Final = STEPS * STEP_TOKENS
LIMIT_S: Final = 240.0

TASK_TEXT: Final = "Look at all pages, one after the other, and say what you have found."
GO_ON: Final = "Go on where you were."
PAUSE: Final = "I have seen half of the pages."
RUNS: Final = "python3 -c \"print('FACT-{step:02} ' + 'page-after-page ' * 1100)\""
FACT: Final = re.compile(r"FACT-\d\d")
_OPENAIS: Final = "gAAAAA-"
_OPENAIS_ITEM: Final = re.compile(r"gAAAAA-((?:[\d,]|FACT|-)*)")

CONFIG: Final = """\
model = "{model}"
model_provider = "gateway"
model_context_window = {context}
model_auto_compact_token_limit = {compacts_at}

[model_providers.gateway]
name = "OpenAI"
base_url = "{url}/v1"
env_key = "GATEWAY_KEY"
wire_api = "responses"
supports_websockets = false
"""
GATEWAY: Final = """
providers:{provider}
models:
  - {{name: {name}, backends: [{{provider: {name}, model: {model}}}]}}
capabilities: [{{match: "{name}/*", context: {context}}}]
store: {{url: "sqlite:///{folder}/store.db"}}
"""


class Session(Struct, frozen=True, kw_only=True):
    """What became of a session. text: what codex said last. requests: that the vendor received.

    tokens: of the outputs of all steps. paths: of the requests that the vendor received.
    """

    text: str
    facts: frozenset[str]
    requests: int
    summaries: int
    tokens: int
    longest: int
    paths: tuple[str, ...]


class LongModel:
    """The stand-in's mind: how many steps it has called for. longest: tokens of a request."""

    def __init__(self, vendor: Vendor) -> None:
        self.steps = 0
        self.summaries = 0
        self.longest = 0
        self.pause_at = STEPS
        self._vendor = vendor

    def says(self, body: Json, text: str) -> Said:
        facts = " ".join(dict.fromkeys(FACT.findall(text)))
        if TASK[:60] in text:
            self.summaries += 1
            return Said(text=("Found: ", facts))
        tools = toolset(self._vendor.dialect.received(_without_compaction(body)).tools)
        if tools is None:
            return Said(text=("Pages",))
        if self.steps >= self.pause_at:
            last = self.steps >= STEPS
            self.pause_at = STEPS
            return Said(text=(f"I found {facts}",) if last else (PAUSE,))
        self.steps += 1
        made = tools.runs(Path("/tmp"), RUNS.format(step=self.steps))
        call = Call(
            id=f"call00{self.steps:03}",
            name=made.name,
            arguments=made.arguments,
            proof=PROOFS.get(self._vendor.name, ""),
        )
        said = Said(text=(), calls=(call,))
        if self._vendor.name == "openai-responses":
            return with_custom_calls(said, body)
        return said


def plays(vendor: Vendor, model: LongModel) -> Behaviour:
    async def behave(request: Received, answer: Answer) -> None:
        body, text = request.json, _opened(request.body.decode())
        tokens = len(text) // 4
        model.longest = max(model.longest, tokens)
        if vendor.name == "openai-responses" and await _compacts(request, answer, text, model):
            return
        said = model.says(body, text)
        bedrock.COUNTS = {"inputTokens": tokens, "outputTokens": 5, "totalTokens": tokens + 5}
        if not is_streamed(request):
            whole = msgspec.json.encode(vendor.dialect.whole(said))
            await answer.body(_counted(whole, tokens), "application/json")
            return
        pieces = vendor.dialect.streamed(said)
        await begin(vendor, answer, [])
        for piece in (*pieces.before, *pieces.content, *pieces.end):
            await answer.chunk(piece if vendor.name == "bedrock" else _counted(piece, tokens))
        await answer.raw(b"0\r\n\r\n")

    return behave


def _opened(text: str) -> str:
    """Read what OpenAI's stand-in has encrypted, which it alone can."""
    return _OPENAIS_ITEM.sub(lambda found: found[1].replace(",", " "), text)


async def _compacts(request: Received, answer: Answer, text: str, model: LongModel) -> bool:
    """Answer as OpenAI's own compaction; False for any other request."""
    endpoint = request.path.endswith("/compact")
    if not endpoint and '"compaction_trigger"' not in text:
        return False
    model.summaries += 1
    facts = ",".join(dict.fromkeys(FACT.findall(text)))
    item = {"id": "cmp_1", "type": "compaction", "encrypted_content": _OPENAIS + facts}
    if endpoint:
        users = [one for one in cast("list[Json]", request.json["input"]) if _is_user(one)]
        kept = [{"id": f"msg_{at}", "status": "completed", **one} for at, one in enumerate(users)]
        body = {"id": "resp_1", "object": "response.compaction", "created_at": 1}
        await answer.json({**body, "output": [*kept, item], "usage": COUNTS})
        return True
    events = EventStream()
    done = response([item])
    begun = {**done, "status": "in_progress", "output": NONE, "usage": None}
    await answer.raw(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    for piece in (
        events.event("response.created", response=begun),
        events.event("response.output_item.added", output_index=0, item=item),
        events.event("response.output_item.done", output_index=0, item=item),
        events.event("response.completed", response=done),
    ):
        await answer.chunk(piece)
    await answer.raw(b"0\r\n\r\n")
    return True


def _without_compaction(body: Json) -> Json:
    """Return the request without what the stand-in has opened already."""
    items = body.get("input")
    if not isinstance(items, list):
        return body
    given = cast("list[Json]", items)
    return {**body, "input": [one for one in given if one.get("type") != "compaction"]}


def _is_user(item: Json) -> bool:
    return item.get("type") == "message" and item.get("role") == "user"


_PROMPT: Final = re.compile(
    rb'("(?:prompt_tokens|input_tokens|promptTokenCount|prompt_eval_count)": ?)%d\b' % USAGE[0]
)
_TOTAL: Final = re.compile(rb'("(?:total_tokens|totalTokenCount)": ?)%d\b' % sum(USAGE))


def _counted(data: bytes, tokens: int) -> bytes:
    """Replace the counts of a vendor's answer by those of the request."""
    data = _PROMPT.sub(rb"\g<1>%d" % tokens, data)
    return _TOTAL.sub(rb"\g<1>%d" % (tokens + USAGE[1]), data)


class LongStage(Struct, frozen=True, kw_only=True, eq=False):
    gateways: tuple[Commanded, Commanded]
    server: Provider
    model: LongModel
    vendor: Vendor


@asynccontextmanager
async def long_stage(run_dir: Path, vendor: Vendor) -> AsyncGenerator[LongStage, None]:
    """Two gateways on one store, in front of one vendor."""
    model = LongModel(vendor)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(provider(plays(vendor, model)))
        url = server.origin + vendor.path
        given = PROVIDER.format(
            name=vendor.name, adapter=vendor.name, url=url, key=VENDORS_KEY, more=vendor.more
        )
        config = GATEWAY.format(
            provider=given,
            name=vendor.name,
            model=MODELS.get(vendor.name, vendor.model),
            context=CONTEXT,
            folder=run_dir,
        )
        one, other = [
            await stack.enter_async_context(commanded(run_dir / f"{name}.yaml", config))
            for name in ("one", "other")
        ]
        yield LongStage(gateways=(one, other), server=server, model=model, vendor=vendor)


async def session(stage: LongStage, home: Path, package: str, *, dies: bool) -> Session:
    """Let codex go through all steps. dies: half way the gateway is killed; the other goes on."""
    first, second = stage.gateways
    if dies:
        stage.model.pause_at = STEPS // 2
    text = await _codex(stage, first, home, package, TASK_TEXT)
    if dies:
        assert PAUSE in text, text[-2000:]
        first.process.kill()
        await first.process.wait()
        text = await _codex(stage, second, home, package, "resume", "--last", GO_ON)
    paths = tuple(one.path for one in stage.server.requests)
    return Session(
        text=text,
        facts=frozenset(FACT.findall(text.rpartition("I found")[2])),
        requests=len(paths),
        summaries=stage.model.summaries,
        tokens=stage.model.steps * STEP_TOKENS,
        longest=stage.model.longest,
        paths=paths,
    )


async def _codex(
    stage: LongStage, gateway: Commanded, home: Path, package: str, *words: str
) -> str:
    config = CONFIG.format(
        model=stage.vendor.name, url=gateway.url, context=CONTEXT, compacts_at=COMPACTS_AT
    )
    folder = home / ".codex"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(config)
    options = ["exec", "--skip-git-repo-check", "--sandbox", "danger-full-access"]
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "GATEWAY_KEY": KEY}
    process = await asyncio.create_subprocess_exec(
        program(package, "codex"),
        *options,
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=home,
        env={**env, **OFFLINE},
    )
    try:
        data, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = data.decode(errors="replace")
    assert process.returncode == 0, text[-3000:]
    return text
