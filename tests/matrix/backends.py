"""The types of backend in the matrix, all behind one gateway."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.gateway.serving import Serving, serving
from tests.gateway.shared_engine import SharedEngine
from tests.matrix.openai_server import speaks_openai
from tests.stand_ins.databricks_server import databricks_server
from tests.stand_ins.mindie_server import MODEL, mindie_server
from tests.stand_ins.provider import provider
from tests.stand_ins.triton_server import triton_server


class Backend(Struct, frozen=True, kw_only=True):
    """name: the model under which the gateway serves it. embeds: its model for embeddings."""

    name: str
    title: str
    embeds: str = ""


BACKENDS: Final = (
    Backend(name="local", title="local engine", embeds="local-embed"),
    Backend(name="openai", title="OpenAI dialect"),
    Backend(name="openai-bridged", title="OpenAI dialect + tokenizer"),
    Backend(name="databricks", title="Databricks"),
    Backend(name="databricks-bridged", title="Databricks + tokenizer"),
    Backend(name="mindie", title="MindIE"),
    Backend(name="mindie-bridged", title="MindIE + tokenizer"),
    Backend(name="triton", title="Triton, text model"),
    Backend(name="triton-bridged", title="Triton, text model + tokenizer"),
    Backend(name="tensors", title="Triton, tensor model"),
    Backend(name="tensors-bridged", title="Triton, tensor model + tokenizer"),
    Backend(name="decoupled", title="Triton, decoupled tensor model"),
    Backend(name="decoupled-bridged", title="Triton, decoupled tensor model + tokenizer"),
)

CONFIG = """
providers:
  - {here}
{remote}
models:
  - {{name: local, backends: [{{provider: here, model: caller}}]}}
  - {{name: local-embed, backends: [{{provider: here, model: mini}}]}}
{served}
"""


PROVIDER = '  - {{name: {name}, adapter: {adapter}, base_url: "{url}", api_key: dapi-fake{more}}}'
MODEL_OF = "  - {{name: {name}, backends: [{{provider: {name}, model: {model}}}]}}"


class Remote(Struct, frozen=True, kw_only=True):
    """A provider that is used twice: as it is, and with a tokenizer."""

    name: str
    adapter: str
    url: str
    model: str


def _lines(remotes: Sequence[Remote], tokenizer: Path) -> tuple[str, str]:
    """Entries of `providers` and `models` for them."""
    providers: list[str] = []
    models: list[str] = []
    for one in remotes:
        for name, more in (
            (one.name, ""),
            (f"{one.name}-bridged", f", tokenizer: {tokenizer}"),
        ):
            providers.append(
                PROVIDER.format(name=name, adapter=one.adapter, url=one.url, more=more)
            )
            models.append(MODEL_OF.format(name=name, model=one.model))
    return "\n".join(providers), "\n".join(models)


@asynccontextmanager
async def every_backend(run_dir: Path, engine: SharedEngine) -> AsyncGenerator[Serving, None]:
    """A gateway with all of them as backends."""
    async with AsyncExitStack() as stack:
        openai = await stack.enter_async_context(provider(speaks_openai))
        databricks = await stack.enter_async_context(databricks_server())
        mindie = await stack.enter_async_context(mindie_server())
        triton = await stack.enter_async_context(triton_server())
        at = triton.base_url
        remotes = (
            Remote(name="openai", adapter="openai", url=openai.base_url, model="m"),
            Remote(name="databricks", adapter="databricks", url=databricks.base_url, model="m"),
            Remote(name="mindie", adapter="mindie", url=mindie.base_url, model=MODEL),
            Remote(name="triton", adapter="triton", url=at, model="ensemble"),
            Remote(name="tensors", adapter="triton-tokens", url=at, model="tensorrt_llm"),
            Remote(
                name="decoupled",
                adapter="triton-tokens-decoupled",
                url=at,
                model="tensorrt_llm_streaming",
            ),
        )
        providers, models = _lines(remotes, engine.tokenizer)
        config = CONFIG.format(here=engine.provider, remote=providers, served=models)
        yield await stack.enter_async_context(serving(config, run_dir, engine=engine))
