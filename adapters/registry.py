"""Which adapter a name in the configuration means: ours, the catalogue's rows, then plug-ins.

A plug-in is an entry point in the group `strowger.adapters` that names a class with the shape of
`adapters.base.Adapter`.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from adapters.anthropic import BASE_URL as ANTHROPIC_URL
from adapters.anthropic import AnthropicAdapter
from adapters.azure import ENTRA, AzureAdapter
from adapters.base import Adapter, Endpoint, TokenEndpoint
from adapters.bedrock import BedrockAdapter
from adapters.catalog import OPENAI, VENDORS, Vendor
from adapters.cohere import BASE_URL as COHERE_URL
from adapters.cohere import CohereAdapter
from adapters.databricks import DatabricksAdapter
from adapters.databricks_tokens import TOKENS
from adapters.gemini import BASE_URL as GEMINI_URL
from adapters.gemini import GeminiAdapter
from adapters.mindie import MindIEAdapter
from adapters.mistral import BASE_URL as MISTRAL_URL
from adapters.mistral import MistralAdapter
from adapters.ollama import OllamaAdapter
from adapters.openai import OpenAIAdapter
from adapters.sglang import SglangAdapter
from adapters.tgi import TgiAdapter
from adapters.triton import TritonAdapter
from adapters.triton_llmapi import TritonLlmApiAdapter
from adapters.triton_tokens import TritonTokensAdapter
from adapters.triton_tokens_decoupled import DecoupledTritonTokensAdapter
from adapters.vllm import VllmAdapter
from schemas.errors import InvalidConfig

GROUP = "strowger.adapters"

Build = Callable[[Endpoint], Adapter]

BUILTIN: Mapping[str, Build] = {
    cls.name: cls
    for cls in (
        OpenAIAdapter,
        AnthropicAdapter,
        CohereAdapter,
        AzureAdapter,
        BedrockAdapter,
        DatabricksAdapter,
        GeminiAdapter,
        MindIEAdapter,
        MistralAdapter,
        OllamaAdapter,
        SglangAdapter,
        TgiAdapter,
        TritonAdapter,
        TritonLlmApiAdapter,
        TritonTokensAdapter,
        DecoupledTritonTokensAdapter,
        VllmAdapter,
    )
}

BASE_URLS: Mapping[str, str] = {
    OPENAI.name: OPENAI.base_url,
    AnthropicAdapter.name: ANTHROPIC_URL,
    CohereAdapter.name: COHERE_URL,
    GeminiAdapter.name: GEMINI_URL,
    MistralAdapter.name: MISTRAL_URL,
}
"""Of adapters that have one."""

TOKEN_ENDPOINTS: Mapping[str, TokenEndpoint] = {
    DatabricksAdapter.name: TOKENS,
    AzureAdapter.name: ENTRA,
}


class Registry:
    """Names and what they build. Plug-ins are loaded only when one of them is asked for."""

    def __init__(self, plugins: Iterable[EntryPoint] | None = None) -> None:
        """Raises InvalidConfig when a plug-in takes a name that is already taken.

        plugins: `None` finds the installed ones.
        """
        self._rows: dict[str, Vendor] = {vendor.name: vendor for vendor in VENDORS}
        self._plugins: dict[str, EntryPoint] = {}
        problems: list[str] = []
        for plugin in entry_points(group=GROUP) if plugins is None else plugins:
            if plugin.name in self.names:
                problems.append(
                    f"the plug-in {plugin.value} calls its adapter {plugin.name!r}, "
                    "a name that is already taken; uninstall it or rename its entry point"
                )
            self._plugins[plugin.name] = plugin
        if problems:
            raise InvalidConfig(tuple(problems))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({*BUILTIN, *self._rows, *self._plugins}))

    def base_url(self, name: str) -> str:
        """The base URL that goes with a name, "" where the configuration must give one."""
        if name in BASE_URLS:
            return BASE_URLS[name]
        row = self._rows.get(name)
        return row.base_url if row else ""

    def tokens(self, name: str) -> TokenEndpoint | None:
        """Where OAuth tokens come from; without a path the configuration must say."""
        return TOKEN_ENDPOINTS.get(name)

    def build(self, name: str, endpoint: Endpoint) -> Adapter:
        """Raises InvalidConfig for a name that nobody has, and for a plug-in that fails to load."""
        if name in BUILTIN:
            return BUILTIN[name](endpoint)
        row = self._rows.get(name)
        if row is not None:
            return OpenAIAdapter(endpoint, row)
        plugin = self._plugins.get(name)
        if plugin is None:
            raise InvalidConfig((self._unknown(name),))
        return self._load(plugin)(endpoint)

    def check(self, name: str) -> str:
        """The problem with a name as a full sentence, "" if somebody has it."""
        return "" if name in self.names else self._unknown(name)

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name, self.names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(self.names)}."
        return f"no adapter is named {name!r}; {hint}"

    def _load(self, plugin: EntryPoint) -> Build:
        try:
            return cast("Build", plugin.load())
        except (ImportError, AttributeError) as exc:
            raise InvalidConfig(
                (f"the adapter {plugin.name!r} ({plugin.value}) cannot be loaded: {exc}",)
            ) from exc
