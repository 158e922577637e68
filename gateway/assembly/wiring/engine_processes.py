"""Create the engine processes of a configuration, which are started later."""

from pathlib import Path

from strowger_gateway.gateway.backends.engines.process.process import (
    EngineProcess,
    engine_settings,
)
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.observability.telemetry.logs import message_style


def engine_processes(config: Config, run_dir: Path) -> dict[str, EngineProcess]:
    """An engine for each local provider, by its name; not started."""
    local = [provider for provider in config.providers if provider.engine is not None]
    log_stderr = message_style(config.logging) == "json"
    return {
        provider.name: EngineProcess(
            provider.name,
            engine_settings(provider, engines=len(local)),
            run_dir,
            log_stderr=log_stderr,
        )
        for provider in local
    }
