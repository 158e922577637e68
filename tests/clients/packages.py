"""Clients that run from their packages against the gateway, and the versions that were tested.

The one place for versions. `python -m tests.clients.install` puts each into a folder of its own.
"""

from pathlib import Path
from typing import Final

from msgspec import Struct

FOLDER: Final = Path(__file__).parents[2] / ".clients"


class Client(Struct, frozen=True, kw_only=True):
    """python, node: what pip or npm installs, pinned; the first is the client itself."""

    name: str
    python: tuple[str, ...] = ()
    node: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def interpreter(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def stamp(self) -> Path:
        """What is installed, one pin per line."""
        return self.folder / "installed.txt"

    @property
    def installed(self) -> bool:
        return self.stamp.exists() and self.stamp.read_text().splitlines() == list(self.pins)

    @property
    def pins(self) -> tuple[str, ...]:
        return self.python + self.node


CLIENTS: Final = {
    client.name: client
    for client in (
        Client(name="guidellm", python=("guidellm==0.8.1",)),
        Client(name="lm-eval", python=("lm-eval[api]==0.4.13", "transformers==5.23.0")),
        Client(name="langchain-openai", python=("langchain-openai==1.7.3",)),
        Client(name="databricks-langchain", python=("databricks-langchain==0.21.0",)),
        Client(name="databricks-openai", python=("databricks-openai==0.18.0",)),
        Client(name="pydantic-ai", python=("pydantic-ai-slim[openai]==2.68.0",)),
        Client(name="schemathesis", python=("schemathesis==4.32.5",)),
        Client(name="langchain-ollama", python=("langchain-ollama==1.1.0",)),
        Client(
            name="llama-index-ollama",
            python=("llama-index-llms-ollama==0.11.0", "llama-index-embeddings-ollama==0.10.0"),
        ),
        Client(name="ollama-js", node=("ollama@0.6.4",)),
        Client(name="google-genai", node=("@google/genai@3.3.0",)),
        Client(name="ai-sdk", node=("ai@7.0.173", "@ai-sdk/openai-compatible@3.0.92")),
    )
}

RERANKERS: Final = Client(
    name="rerankers",
    python=(
        "cohere==5.21.1",
        "voyageai==0.3.7",
        "langchain-cohere==0.5.1",
        "langchain-voyageai==0.3.3",
        "llama-index-postprocessor-cohere-rerank==0.10.0",
        "llama-index-postprocessor-jinaai-rerank==0.6.0",
        "llama-index-postprocessor-voyageai-rerank==0.6.0",
    ),
)
"""All in one folder, for `scripts/rerankers.py` (test_rerank_clients.py)."""

LITELLM: Final = Client(
    name="litellm",
    python=(
        "litellm==1.110.2",
        "litellm-proxy-extras==0.4.110",
        "PyNaCl==1.6.2",
        "backoff==2.2.1",
        "fastapi==0.165.0",
        "orjson==3.13.0",
        "redis==8.1.0",
    ),
)
"""Its migrations and functions, for `scripts/litellm_rows.py` (test_litellm_database.py)."""

AGENTS: Final = {
    client.name: client
    for client in (
        Client(name="claude-code", node=("@anthropic-ai/claude-code@2.1.332",)),
        Client(name="codex", node=("@openai/codex@0.169.0",)),
        Client(name="codex-endpoint", node=("@openai/codex@0.110.0",)),
        Client(name="opencode", node=("opencode-ai@1.18.33",)),
        Client(name="qwen-code", node=("@qwen-code/qwen-code@0.24.4",)),
        Client(name="gemini-cli", node=("@google/gemini-cli@0.61.0",)),
        Client(name="cline", node=("cline@3.0.65",)),
        Client(name="continue", node=("@continuedev/cli@1.5.47",)),
        Client(name="kilo-code", node=("@kilocode/cli@7.7.7",)),
        Client(name="aider", python=("aider-chat==0.86.2",)),
        Client(
            name="ai-sdk-agents",
            node=(
                "ai@7.0.173",
                "@ai-sdk/openai@4.0.118",
                "@ai-sdk/anthropic@4.0.105",
                "@ai-sdk/openai-compatible@3.0.92",
            ),
        ),
        Client(name="openai-node", node=("openai@7.57.0",)),
        Client(name="anthropic-node", node=("@anthropic-ai/sdk@1.12.0",)),
        Client(name="google-node", node=("@google/genai@3.3.0",)),
        Client(name="openai-agents", python=("openai-agents==0.24.0",)),
        Client(name="pydantic-ai-agents", python=("pydantic-ai-slim[anthropic,openai]==2.68.0",)),
        Client(
            name="langchain",
            python=(
                "langchain==1.5.2",
                "langchain-openai==1.7.4",
                "langchain-anthropic==1.7.10",
            ),
        ),
        Client(name="autogen", python=("autogen-agentchat==0.7.5", "autogen-ext[openai]==0.7.5")),
        Client(name="instructor", python=("instructor[anthropic]==1.17.0",)),
    )
}
"""Agents and tool runners of tests/agents. The SDKs for Python are packages of the tests."""
