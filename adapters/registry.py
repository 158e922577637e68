"""Finds the adapter for a name in the configuration: built-in, vendor profiles, plug-ins.

A plug-in is an entry point in the group `strowger.adapters` that names a class with the interface
`strowger_gateway.adapters.base.Adapter`; each built-in adapter is one line in `BUILTIN`, in the
same format within this package. A class declares its vendor's addresses (`HasBaseUrl`,
`HasTokenEndpoint`).
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from strowger_gateway.adapters.base import (
    Adapter,
    Endpoint,
    HasBaseUrl,
    HasTokenEndpoint,
    TokenEndpoint,
)
from strowger_gateway.adapters.openai.adapter import OpenAIAdapter
from strowger_gateway.adapters.openai.vendor_profiles import OPENAI, VENDORS, VendorProfile
from strowger_gateway.schemas.close_names import close_names
from strowger_gateway.schemas.errors import InvalidConfig

GROUP = "strowger.adapters"
HERE = "strowger_gateway.adapters"

BUILTIN: Mapping[str, str] = {
    "anthropic": "anthropic.adapter:AnthropicAdapter",
    "azure": "openai_compatible.azure:AzureAdapter",
    "azure-content-safety": "azure_content_safety.adapter:AzureContentSafetyAdapter",
    "azure-responses": "openai_responses.rows:AzureResponsesAdapter",
    "bedrock": "bedrock.adapter:BedrockAdapter",
    "cohere": "cohere.adapter:CohereAdapter",
    "databricks": "databricks.adapter:DatabricksAdapter",
    "gemini": "gemini.adapter:GeminiAdapter",
    "lm-studio-responses": "openai_responses.rows:LMStudioResponsesAdapter",
    "mindie": "mindie.adapter:MindIEAdapter",
    "mistral": "mistral.adapter:MistralAdapter",
    "ollama": "ollama.adapter:OllamaAdapter",
    "ollama-responses": "openai_responses.rows:OllamaResponsesAdapter",
    "openai": "openai.adapter:OpenAIAdapter",
    "openai-responses": "openai_responses.adapter:OpenAIResponsesAdapter",
    "openrouter-responses": "openai_responses.rows:OpenRouterResponsesAdapter",
    "sglang": "openai_compatible.sglang:SglangAdapter",
    "tgi": "tgi.adapter:TgiAdapter",
    "triton": "triton.ensemble:TritonTextAdapter",
    "triton-llmapi": "triton.llmapi:TritonLlmApiAdapter",
    "triton-tokens": "triton.tokens:TritonTokensAdapter",
    "triton-tokens-decoupled": "triton.tokens_decoupled:DecoupledTritonTokensAdapter",
    "vertex-anthropic": "anthropic.vertex:VertexAnthropicAdapter",
    "vllm": "openai_compatible.vllm:VllmAdapter",
    "vllm-responses": "openai_responses.rows:VllmResponsesAdapter",
}

MEMBERS = ("name", "framing", "supports", "encode", "decoder", "embeddings", "error")
"""Of `strowger_gateway.adapters.base.Adapter`."""


@cache
def installed() -> tuple[EntryPoint, ...]:
    """Return the installed plug-ins. Cached: the search reads a file of every package."""
    return tuple(entry_points(group=GROUP))


class Registry:
    """Adapter names and classes. A class is loaded only when its name is used."""

    def __init__(self, plugins: Iterable[EntryPoint] | None = None) -> None:
        """Raises InvalidConfig if a plug-in uses a name that is already taken.

        plugins: `None` finds the installed ones.
        """
        self._rows: dict[str, VendorProfile] = {
            vendor.name: vendor for vendor in (OPENAI, *VENDORS)
        }
        self._classes = {
            name: EntryPoint(name=name, value=f"{HERE}.{value}", group=GROUP)
            for name, value in BUILTIN.items()
        }
        problems: list[str] = []
        for plugin in installed() if plugins is None else plugins:
            if plugin.name in self.names:
                problems.append(
                    f"the plug-in {plugin.value} names its adapter {plugin.name!r}, "
                    "which is already taken; uninstall it or rename its entry point"
                )
            self._classes[plugin.name] = plugin
        if problems:
            raise InvalidConfig(tuple(problems))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({*self._rows, *self._classes}))

    def base_url(self, name: str) -> str:
        """Return the name's default base URL, "" if the configuration must give one.

        Raises InvalidConfig as `build` does.
        """
        row = self._rows.get(name)
        if row is not None:
            return row.base_url
        adapter = self._class(name)
        return adapter.base_url.rstrip("/") if isinstance(adapter, HasBaseUrl) else ""

    def tokens(self, name: str) -> TokenEndpoint | None:
        """Return the OAuth token endpoint; if it has no path, the configuration must give one.

        Raises InvalidConfig as `build` does.
        """
        if name in self._rows:
            return None
        adapter = self._class(name)
        return adapter.token_endpoint if isinstance(adapter, HasTokenEndpoint) else None

    def may_continue(self, name: str) -> bool:
        """Return whether `Endpoint.continues` has an effect: of a row that knows no form itself."""
        row = self._rows.get(name)
        return row is not None and not row.prefix_path

    def build(self, name: str, endpoint: Endpoint) -> Adapter:
        """Raises InvalidConfig for an unknown name, and for a plug-in that fails to load."""
        if name in self._classes:
            return self._class(name)(endpoint)
        row = self._rows.get(name)
        if row is None:
            raise InvalidConfig((self._unknown(name),))
        if row.count_path:
            from strowger_gateway.adapters.openai.counting import CountingOpenAIAdapter

            return CountingOpenAIAdapter(endpoint, row)
        return OpenAIAdapter(endpoint, row)

    def check(self, name: str) -> str:
        """Return the problem with a name as a full sentence, "" if it exists."""
        return "" if name in self.names else self._unknown(name)

    def _unknown(self, name: str) -> str:
        near = close_names(name, self.names)
        hint = f"did you mean {near[0]!r}?" if near else f"available: {', '.join(self.names)}."
        return f"no adapter is named {name!r}; {hint}"

    def _class(self, name: str) -> type[Adapter]:
        found = self._classes.get(name)
        if found is None:
            raise InvalidConfig((self._unknown(name),))
        what = f"adapter {name!r} ({found.value})"
        try:
            loaded: object = found.load()
        except (ImportError, AttributeError) as exc:
            raise InvalidConfig((f"{what} cannot be loaded: {exc}",)) from exc
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # another package's code, which may call `sys.exit`
            problem = f"{what} cannot be loaded: {type(exc).__name__}: {exc}"
            raise InvalidConfig((problem,)) from exc
        missing = [member for member in MEMBERS if not hasattr(loaded, member)]
        if missing or not isinstance(loaded, type):
            lacks = f"it has no {', '.join(missing)}" if missing else "it is not a class"
            raise InvalidConfig((f"{what} is not an adapter: {lacks}",))
        return cast("type[Adapter]", loaded)
