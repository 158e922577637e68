"""A gateway, as a process, in front of one stand-in per vendor that plays the task."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.adapters.gemini.messages import SKIPPED
from tests.agents import errands, jobs
from tests.agents.play import next_step, progress
from tests.agents.toolsets import toolset
from tests.agents.trouble import Trouble, refusal
from tests.gateway.backends.vendors.backend import KEY, begin, is_streamed
from tests.gateway.backends.vendors.dialect import Json, ReceivedRequest, Said, Streamed, dicts
from tests.gateway.backends.vendors.rows import VENDORS, Vendor
from tests.gateway.commanded import Commanded, commanded
from tests.stand_ins.gemini_server import SIGNATURE, fault_of
from tests.stand_ins.mindie_checks import check_chat
from tests.stand_ins.provider import Answer, Behaviour, Provider, Received, provider
from tests.switching.scene import Scene

BACKENDS: Final = tuple(
    one for one in VENDORS if one.task == "chat" and one.name != "vertex-anthropic"
)
"""Those that know tools. Triton's models get text, in which this gateway puts no tools. Claude on
Vertex AI gets the bodies that `anthropic` gets; the corpora go to both."""

PROVIDER: Final = """
  - name: {name}
    adapter: {adapter}
    base_url: "{url}"
    api_key: {key}
    {more}"""
MODEL: Final = "  - {{name: {name}, backends: [{{provider: {name}, model: {model}}}]}}\n"


class Stage(Struct, frozen=True, kw_only=True, eq=False):
    """servers: by vendor. faults: what a stand-in could not understand, by vendor.

    troubles: what a vendor does to the run that is going on, by vendor.
    """

    gateway: Commanded
    servers: dict[str, Provider]
    faults: dict[str, list[str]]
    troubles: dict[str, Trouble]


def _nothing(_: Json) -> str:
    return ""


def _gemini(body: Json) -> str:
    """Google takes a placeholder for a signature; the adapter sends it for a lost one."""
    text = json.dumps(body["contents"]).replace(SKIPPED, SIGNATURE)
    return fault_of(dicts(json.loads(text)))


def _mindie(body: Json) -> str:
    refusal = check_chat(body, "m1")
    return "" if refusal is None else refusal.error


MODELS: Final = {"gemini": "gemini-3-pro-preview"}
"""The models of vendors that ask more of clients than their others."""

REASONS: Final = {
    "openai": "gpt-5.5",
    "openai-responses": "gpt-5.5",
    "anthropic": "claude-opus-4-7",
    "gemini": "gemini-3-pro-preview",
}
"""Models that think for minutes, of the vendors that do all jobs."""

CHECKS: Final[Mapping[str, Callable[[Json], str]]] = {"gemini": _gemini, "mindie": _mindie}
"""What a vendor rejects of a conversation, as an error, by vendor."""

PROOFS: Final = {"gemini": SIGNATURE}
"""Of calls, which must come back with them."""

FRESH: Final[Mapping[bytes, bytes]] = {
    b"aB3_xyZ-9": b"aB3_xyZ%04d",
    b"2026-03-01T10:20:30.1Z": b"2026-03-01T10:20:30.%04dZ",
    b'"resp_1"': b'"resp_%04d"',
    b'"rs_7"': b'"rs_%04d"',
    b'"msg_7"': b'"msg_%04d"',
    b'"fc_': b'"fc_%04d_',
    b'"ctc_': b'"ctc_%04d_',
}
"""What a stand-in repeats in every answer and no vendor does: ids, and what they are made of."""


def plays(vendor: Vendor, faults: list[str], troubles: Mapping[str, Trouble]) -> Behaviour:
    """troubles: looked up with each request."""
    numbers = count()

    async def behave(request: Received, answer: Answer) -> None:
        trouble = troubles[vendor.name]
        if request.path.endswith((":countTokens", "/count_tokens")):
            await answer.json({"totalTokens": 99, "input_tokens": 99})
            return
        try:
            body = request.json
            refused = CHECKS.get(vendor.name, _nothing)(body)
            asked = vendor.dialect.received(body)
            said = _said(vendor, asked, request)
            step = progress(asked)
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            refused, said, step = repr(exc), Said(), None
        if refused:
            faults.append(f"{refused} in {request.body[-4000:].decode()}")
            await answer.json(vendor.dialect.error(400, refused), 400)
        elif status := trouble.status(step):
            await answer.json(refusal(vendor, status), status)
        else:
            thinking = trouble if step is not None else Trouble()
            await _send(vendor, said, request, answer, next(numbers), thinking)

    return behave


def _said(vendor: Vendor, asked: ReceivedRequest, request: Received) -> Said | Scene:
    tools, body, proof = toolset(asked.tools), request.json, PROOFS.get(vendor.name, "")
    words = " ".join(turn.text for turn in asked.turns if turn.role != "assistant")
    is_search = jobs.SEARCH.partition("{folder}")[2] in words
    if is_search or tools is None:
        found = errands.search_of(vendor.name, body)
        if found is not None:
            return found
    if is_search:
        return errands.searches(tools, asked, vendor.name, proof)
    if jobs.READ_PDF.partition("{folder}")[2] in words:
        return errands.reads_pdf(tools, asked, request.body, proof)
    said = next_step(asked, proof)
    return with_custom_calls(said, body) if vendor.name == "openai-responses" else said


def with_custom_calls(said: Said, body: Json) -> Said:
    """As the only vendor that gets custom tools answers them."""
    custom = {one["name"] for one in dicts(body.get("tools")) if one["type"] == "custom"}
    calls = tuple(replace(one, custom=one.name in custom) for one in said.calls)
    return replace(said, calls=calls)


async def _send(
    vendor: Vendor,
    said: Said | Scene,
    request: Received,
    answer: Answer,
    number: int,
    trouble: Trouble,
) -> None:
    def fresh(data: bytes) -> bytes:
        for known, new in FRESH.items():
            data = data.replace(known, new % number)
        return data

    if is_streamed(request):
        pieces = vendor.dialect.streamed(said) if isinstance(said, Said) else _split(said)
        pings = vendor.name == "anthropic"
        if not pings:
            await trouble.think(vendor, answer, streamed=True)
        await begin(vendor, answer, [*map(fresh, pieces.before)])
        if pings:
            await trouble.think(vendor, answer, streamed=True)
        for piece in map(fresh, [*pieces.content, *pieces.end]):
            await answer.chunk(piece)
        await answer.raw(b"0\r\n\r\n")
    else:
        await trouble.think(vendor, answer, streamed=False)
        whole = vendor.dialect.whole(said) if isinstance(said, Said) else said.whole
        await answer.body(fresh(msgspec.json.encode(whole)), "application/json")


def _split(scene: Scene) -> Streamed:
    return Streamed(before=scene.streamed[:1], content=scene.streamed[1:])


@asynccontextmanager
async def stage(
    run_dir: Path,
    backends: Sequence[Vendor] = BACKENDS,
    models: Mapping[str, str] = MODELS,
    more: str = "",
) -> AsyncGenerator[Stage, None]:
    """Every backend is a model of its vendor's name. models: at the vendors, by their names.

    more: of the configuration.
    """
    servers: dict[str, Provider] = {}
    faults: dict[str, list[str]] = {one.name: [] for one in backends}
    troubles = {one.name: Trouble() for one in backends}
    providers, served = "", ""
    async with AsyncExitStack() as stack:
        for one in backends:
            behaviour = plays(one, faults[one.name], troubles)
            server = await stack.enter_async_context(provider(behaviour))
            servers[one.name] = server
            url = server.origin + one.path
            providers += PROVIDER.format(
                name=one.name, adapter=one.name, url=url, key=KEY, more=one.more
            )
            served += MODEL.format(name=one.name, model=models.get(one.name, one.model))
        config = f"providers:{providers}\nmodels:\n{served}{more}"
        up = await stack.enter_async_context(commanded(run_dir / "config.yaml", config))
        yield Stage(gateway=up, servers=servers, faults=faults, troubles=troubles)
