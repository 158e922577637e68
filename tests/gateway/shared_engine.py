"""One engine process for all test files of a worker that need no other: its start takes seconds."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from anyio.from_thread import start_blocking_portal
from msgspec import Struct

from strowger_gateway.gateway.backends.engines.process.process import (
    EngineProcess,
    EngineView,
    engine_settings,
)
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.config import Config

PROVIDER = """{{name: here, adapter: local, engine: {{
  device: cpu, dtype: float32, threads: 1, accept_lora: true, models: [
    {{name: tiny, path: "bundled:tiny-chat"}},
    {{name: caller, path: "{caller}"}},
    {{name: mini, path: "{mini}", task: embed}}]}}}}"""
"""In float32, as transformers computes the oracles. tiny adds; caller, with random weights, has a
template with tools; mini embeds."""

MODELS = "models: [{name: tiny, backends: [{provider: here, model: tiny}]}]"


class SharedEngine(Struct, frozen=True, kw_only=True, eq=False):
    """A running engine.

    provider: the entry under `providers` that describes it, as YAML. tokenizer: of `caller`.
    """

    provider: str
    tokenizer: Path
    process: EngineProcess

    def serving(self, config: Config) -> Mapping[str, EngineView]:
        """The engines of a configuration, which must describe this one and no other."""
        local = [provider for provider in config.providers if provider.engine is not None]
        assert [engine_settings(provider) for provider in local] == [self.process.settings]
        return {local[0].name: self.process}


@contextmanager
def shared_engine(run_dir: Path) -> Generator[SharedEngine, None]:
    """Ready. It has an event loop, in a thread, that outlives those of the tests. Needs torch."""
    from tests.local_engine.embeddings.tiny_embedders import CASES, save_embedder
    from tests.local_engine.guided.tool_models import save_talker

    caller = save_talker(run_dir / "caller", "hermes")
    mini = save_embedder(run_dir / "mini", CASES["bert-cls"])
    provider = PROVIDER.format(caller=caller, mini=mini)
    config = read_config(f"providers: [{provider}]\n{MODELS}", source="config.yaml", env={})
    process = EngineProcess("here", engine_settings(config.providers[0]), run_dir)
    with (
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(process),
    ):
        assert portal.call(process.wait_ready), process.status
        tokenizer = caller / "tokenizer.json"
        yield SharedEngine(provider=provider, tokenizer=tokenizer, process=process)
