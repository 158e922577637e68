"""A gateway in front of all vendors, each of which answers with a scene and checks what it gets."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
from msgspec import Struct

from tests.gateway.backends.vendors.backend import is_streamed
from tests.gateway.backends.vendors.dialect import Json, Said
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, provider
from tests.switching.acceptance import Issued, faults
from tests.switching.backends import BACKENDS, Backend
from tests.switching.scene import ALONE, Scene

CLOSING = "Fine."
"""What every vendor says that plays no scene."""

EITHER = "{}-or-{}"
"""A model that falls over from one vendor to another."""

_PROVIDER = """
  - name: {name}
    adapter: {name}
    base_url: "{url}"
    api_key: secret-of-the-operator-0123456789
    timeouts: {{connect_s: 20, first_token_s: 20, between_tokens_s: 20, total_s: 30}}"""
_MODEL = """
  - name: {name}
    policy: in_order
    retry: {{attempts: 2, backoff_s: 0.001, max_backoff_s: 0.005}}
    breaker: {{min_requests: 1000}}
    {more}
    backends: [{backends}]"""


class Stage(Struct, kw_only=True, eq=False):
    """One vendor's server. scene: its next answer, `None` for `CLOSING`. failing: 503 instead."""

    backend: Backend
    issued: Issued
    scenes: Mapping[str, Scene]
    scene: Scene | None = None
    failing: bool = False
    received: list[Json] = []

    async def behave(self, request: Received, answer: Answer) -> None:
        dialect = self.backend.dialect
        self.received.append(request.json)
        if self.failing:
            await answer.json(dialect.error(503, "overloaded"), 503)
            return
        backend = self.backend
        refused = list(faults(backend.name, request, backend.proofs, self.issued))
        if refused:
            await answer.json(dialect.error(400, "; ".join(refused)), 400)
            return
        scene = self.scene
        if not is_streamed(request):
            said = dialect.whole(Said(text=(CLOSING,))) if scene is None else scene.whole
            await answer.json(said)
            return
        pieces: Sequence[bytes]
        if scene is None:
            streamed = dialect.streamed(Said(text=(CLOSING,)))
            pieces = [*streamed.before, *streamed.content, *streamed.end]
        else:
            pieces = scene.streamed
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {dialect.kind}\r\n"
        await answer.raw(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        await answer.chunk(b"".join(pieces))
        await answer.raw(b"0\r\n\r\n")


class Setting(Struct, frozen=True, kw_only=True, eq=False):
    """stages: by vendor."""

    gateway: Serving
    web: httpx.AsyncClient
    stages: Mapping[str, Stage]

    def reset(self) -> None:
        for one in self.stages.values():
            one.scene, one.failing = None, False
            one.received.clear()


def issued() -> Issued:
    """Return all proofs of all scenes, by format."""
    found: dict[str, set[str]] = {ALONE: set()}
    for backend in BACKENDS:
        for scene in backend.scenes():
            for proof, format in scene.proofs.items():
                found.setdefault(format, set()).add(proof)
    return found


@asynccontextmanager
async def every_backend(run_dir: Path) -> AsyncGenerator[Setting, None]:
    """Serve a model per vendor, under an alias too, and one per pair that falls over to the second.

    All have the vendor's own name of the model.
    """
    async with AsyncExitStack() as stack:
        given = issued()
        stages: dict[str, Stage] = {}
        providers = ""
        for one in BACKENDS:
            scenes = {scene.name: scene for scene in one.scenes()}
            stage = Stage(backend=one, issued=given, scenes=scenes)
            server: Provider = await stack.enter_async_context(provider(stage.behave))
            providers += _PROVIDER.format(name=one.name, url=server.origin + one.path)
            stages[one.name] = stage
        config = f"providers:{providers}\nmodels:{_models()}\n"
        gateway = await stack.enter_async_context(serving(config, run_dir))
        web = await stack.enter_async_context(httpx.AsyncClient(base_url=gateway.url, timeout=60))
        yield Setting(gateway=gateway, web=web, stages=stages)


def _models() -> str:
    models = ""
    for one in BACKENDS:
        alone = f"{{provider: {one.name}, model: {one.model}}}"
        more = f"aliases: [{one.alias}]"
        models += _MODEL.format(name=one.name, backends=alone, more=more)
        for other in BACKENDS:
            if other is not one:
                both = f"{alone}, {{provider: {other.name}, model: {other.model}}}"
                name = EITHER.format(one.name, other.name)
                models += _MODEL.format(name=name, backends=both, more="")
    return models
