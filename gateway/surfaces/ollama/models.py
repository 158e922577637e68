"""The models in Ollama's format: its list, one model, and those that are loaded.

Ollama describes files on its disk. A model here has none, so its size is 0 and its digest is of its
name; unknown details are empty. The architecture is a name of ours, because clients look for the
context length under `ARCHITECTURE.context_length`.
https://github.com/ollama/ollama/blob/main/docs/api.md#list-local-models
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType

from strowger_gateway.gateway.surfaces.model_card import ModelCard
from strowger_gateway.gateway.surfaces.ollama.lines import stamp
from strowger_gateway.gateway.surfaces.openai.envelope import encode

API_VERSION: Final = "0.13.0"
"""The version of Ollama whose API this is. Clients refuse to work with versions that are too old
for them: https://github.com/microsoft/vscode-copilot-chat asks for 0.6.4."""

RUNNING: Final = "Ollama is running"
"""What clients of Ollama find at `/`."""

ARCHITECTURE: Final = "strowger"
FOR_EVER: Final = "2318-01-01T00:00:00Z"
"""Nothing is unloaded. Ollama's own time for that is in the same century."""

PROMPT: Final = "{{ .Prompt }}"
PROMPT_AND_SUFFIX: Final = "{{ .Prompt }}{{ .Suffix }}"
"""Templates that say which of the two a model takes. The real one is the backend's."""

_NS: Final = 1_000_000_000

Capability = Literal["completion", "tools", "vision", "thinking", "embedding", "insert"]


class Details(Struct, frozen=True, kw_only=True):
    """Of the model's file, which does not exist."""

    parent_model: str = ""
    format: str = ""
    family: str = ARCHITECTURE
    families: tuple[str, ...] = (ARCHITECTURE,)
    parameter_size: str = ""
    quantization_level: str = ""


class OllamaModel(Struct, frozen=True, kw_only=True):
    """modified_at: when the gateway started. size: bytes. digest: SHA-256 of the name, in hex."""

    name: str
    model: str
    modified_at: str
    size: int = 0
    digest: str
    details: Details = Details()


class OllamaModelList(Struct, frozen=True, kw_only=True):
    """The models that the key may use."""

    models: list[OllamaModel]


class RunningModel(Struct, frozen=True, kw_only=True):
    """A model that a backend can answer for now."""

    name: str
    model: str
    size: int = 0
    digest: str
    details: Details = Details()
    expires_at: str = FOR_EVER
    size_vram: int = 0
    context_length: int | UnsetType = UNSET


class RunningModelList(Struct, frozen=True, kw_only=True):
    models: list[RunningModel]


class OllamaModelInfo(Struct, frozen=True, kw_only=True):
    """One model. model_info: what is known of it, by GGUF's names."""

    modelfile: str
    parameters: str = ""
    template: str = ""
    details: Details = Details()
    model_info: dict[str, str | int]
    capabilities: tuple[Capability, ...]
    modified_at: str


class OllamaVersion(Struct, frozen=True, kw_only=True):
    version: str


class PullProgress(Struct, frozen=True, kw_only=True):
    """One line of a pull. https://github.com/ollama/ollama/blob/main/docs/api.md#pull-a-model"""

    status: str


def version_body() -> bytes:
    return encode(OllamaVersion(version=API_VERSION))


def list_body(names: Iterable[str], started: float) -> bytes:
    """started: Unix seconds."""
    at = _time(started)
    models = [
        OllamaModel(name=one, model=one, modified_at=at, digest=_digest(one)) for one in names
    ]
    return encode(OllamaModelList(models=models))


def running_body(cards: Iterable[ModelCard]) -> bytes:
    models = [
        RunningModel(
            name=one.name,
            model=one.name,
            digest=_digest(one.name),
            context_length=UNSET if one.context is None else one.context,
        )
        for one in cards
    ]
    return encode(RunningModelList(models=models))


def info_body(card: ModelCard, capabilities: tuple[Capability, ...], started: float) -> bytes:
    """started: Unix seconds."""
    info: dict[str, str | int] = {
        "general.architecture": ARCHITECTURE,
        "general.basename": card.name,
    }
    if card.context is not None:
        info[f"{ARCHITECTURE}.context_length"] = card.context
    # Some clients find the context only here, and look for fill in the middle in the template.
    parameters = "" if card.context is None else f"num_ctx {card.context}"
    template = PROMPT_AND_SUFFIX if "insert" in capabilities else PROMPT
    return encode(
        OllamaModelInfo(
            modelfile=f"# served by Strowger\nFROM {card.name}\n",
            parameters=parameters,
            template=template,
            model_info=info,
            capabilities=capabilities,
            modified_at=_time(started),
        )
    )


def pulled_body(*, stream: bool) -> bytes:
    """Return what a pull of a model that is there answers: it has nothing to fetch."""
    done = encode(PullProgress(status="success"))
    return b"%b\n%b\n" % (encode(PullProgress(status="pulling manifest")), done) if stream else done


def _digest(name: str) -> str:
    return sha256(name.encode()).hexdigest()


def _time(seconds: float) -> str:
    return stamp(int(seconds * _NS)).decode()
