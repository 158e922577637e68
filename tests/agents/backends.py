"""A gateway, as a process, in front of one stand-in per vendor that plays the task."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from adapters.gemini.messages import SKIPPED
from tests.agents.play import next_step
from tests.gateway.commanded import Commanded, commanded
from tests.gateway.vendors.backend import KEY, PROVIDER, begin, is_streamed
from tests.gateway.vendors.dialect import Json, Said, dicts
from tests.gateway.vendors.rows import VENDORS, Vendor
from tests.stand_ins.gemini_server import SIGNATURE, fault_of
from tests.stand_ins.mindie_checks import check_chat
from tests.stand_ins.provider import Answer, Behaviour, Provider, Received, provider

BACKENDS: Final = tuple(
    one for one in VENDORS if one.task == "chat" and one.name != "vertex-anthropic"
)
"""Those that know tools. Triton's models get text, in which this gateway puts no tools. Claude on
Vertex AI gets the bodies that `anthropic` gets; the corpora go to both."""

MODEL: Final = "  - {{name: {name}, backends: [{{provider: {name}, model: {model}}}]}}\n"


class Stage(Struct, frozen=True, kw_only=True, eq=False):
    """servers: by vendor. faults: what a stand-in could not understand, by vendor."""

    gateway: Commanded
    servers: dict[str, Provider]
    faults: dict[str, list[str]]


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


def plays(vendor: Vendor, faults: list[str]) -> Behaviour:
    numbers = count()

    async def behave(request: Received, answer: Answer) -> None:
        try:
            body = request.json
            refused = CHECKS.get(vendor.name, _nothing)(body)
            said = next_step(vendor.dialect.received(body), PROOFS.get(vendor.name, ""))
            if vendor.name == "openai-responses":
                said = _with_custom_calls(said, body)
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            refused, said = repr(exc), Said()
        if refused:
            faults.append(f"{refused} in {request.body[-4000:].decode()}")
            await answer.json(vendor.dialect.error(400, refused), 400)
            return
        await _send(vendor, said, request, answer, next(numbers))

    return behave


def _with_custom_calls(said: Said, body: Json) -> Said:
    """As the only vendor that gets custom tools answers them."""
    custom = {one["name"] for one in dicts(body.get("tools")) if one["type"] == "custom"}
    calls = tuple(replace(one, custom=one.name in custom) for one in said.calls)
    return replace(said, calls=calls)


async def _send(vendor: Vendor, said: Said, request: Received, answer: Answer, number: int) -> None:
    def fresh(data: bytes) -> bytes:
        for known, new in FRESH.items():
            data = data.replace(known, new % number)
        return data

    if is_streamed(request):
        pieces = vendor.dialect.streamed(said)
        await begin(vendor, answer, [*map(fresh, [*pieces.before, *pieces.content, *pieces.end])])
        await answer.raw(b"0\r\n\r\n")
    else:
        whole = msgspec.json.encode(vendor.dialect.whole(said))
        await answer.body(fresh(whole), "application/json")


@asynccontextmanager
async def stage(run_dir: Path) -> AsyncGenerator[Stage, None]:
    """Every backend is a model of its vendor's name."""
    servers: dict[str, Provider] = {}
    faults: dict[str, list[str]] = {one.name: [] for one in BACKENDS}
    providers, models = "", ""
    async with AsyncExitStack() as stack:
        for one in BACKENDS:
            server = await stack.enter_async_context(provider(plays(one, faults[one.name])))
            servers[one.name] = server
            url = server.origin + one.path
            providers += PROVIDER.format(
                name=one.name, adapter=one.name, url=url, key=KEY, more=one.more
            )
            models += MODEL.format(name=one.name, model=MODELS.get(one.name, one.model))
        config = f"providers:{providers}\nmodels:\n{models}"
        up = await stack.enter_async_context(commanded(run_dir / "config.yaml", config))
        yield Stage(gateway=up, servers=servers, faults=faults)
