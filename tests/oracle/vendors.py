"""Knows which adapter sends to an address, from the configurations of the tests' gateways."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from tests.oracle.sent import Api

ALONE: Final[Mapping[Api, str]] = {
    "anthropic-messages": "anthropic",
    "anthropic-count": "anthropic",
    "anthropic-vertex": "vertex-anthropic",
    "bedrock-converse": "bedrock",
    "bedrock-count": "bedrock",
    "bedrock-invoke": "bedrock",
    "cohere-chat": "cohere",
    "cohere-embed": "cohere",
    "gemini-count": "gemini",
    "gemini-embed": "gemini",
    "gemini-generate": "gemini",
    "mistral-fim": "mistral",
    "ollama-chat": "ollama",
    "ollama-embed": "ollama",
    "ollama-generate": "ollama",
    "tgi-generate": "tgi",
}
"""APIs that one adapter alone sends to."""

OTHER_DIALECTS: Final = frozenset(ALONE.values()) - {"mistral", "tgi"}

OFFICIAL: Final = "api.openai.com"
COMPATIBLE: Final = "compatible"
"""The adapter `openai` with a server that is not OpenAI's, of which nothing is known."""


class Configured(Protocol):
    """A provider of a configuration."""

    @property
    def adapter(self) -> str: ...
    @property
    def base_url(self) -> str | None: ...


class _Provider(Struct, frozen=True):
    adapter: str = ""
    base_url: str | None = None


class _Config(Struct, frozen=True):
    providers: tuple[_Provider, ...] = ()


def _may_send(adapter: str, api: Api) -> bool:
    """Whether an adapter may send to one of the APIs of OpenAI's dialect."""
    if adapter in OTHER_DIALECTS or adapter.startswith("triton"):
        return adapter == "triton-openai"
    return adapter.endswith("-responses") == (api == "openai-responses")


class Vendors:
    """Adapters by the address that they send to: an authority and the beginning of a path."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, set[str]]] = {}

    def learn(self, providers: Iterable[Configured]) -> None:
        """Take in a configuration, which replaces what was known of its addresses."""
        found: dict[str, dict[str, set[str]]] = {}
        for one in providers:
            if one.base_url:
                url = urlsplit(one.base_url)
                prefixes = found.setdefault(url.netloc.lower(), {})
                prefixes.setdefault(url.path.rstrip("/"), set()).add(one.adapter)
        self._known.update(found)

    def learn_text(self, text: str) -> None:
        """Take in a configuration of another process; what is none is not taken in."""
        with suppress(msgspec.MsgspecError):
            self.learn(msgspec.yaml.decode(text, type=_Config).providers)

    def of(self, api: Api, authority: str, path: str) -> str:
        """Return the adapter's name, `compatible`, or "" if several would do."""
        if api in ALONE:
            return ALONE[api]
        authority = authority.lower()
        prefixes = self._known.get(authority, {})
        fitting = [one for one in prefixes if path.startswith(f"{one}/")]
        known = prefixes[max(fitting, key=len)] if fitting else set[str]()
        adapters = {one for one in known if _may_send(one, api)}
        if len(adapters) != 1:
            return ""
        (adapter,) = adapters
        official = authority.partition(":")[0].endswith(OFFICIAL)
        return COMPATIBLE if adapter == "openai" and not official else adapter
