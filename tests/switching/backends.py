"""The vendors between which a conversation switches."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from strowger_gateway.schemas.messages import CLAUDE, GEMINI, OPENAI
from tests.gateway.backends.vendors import bedrock, cohere, gemini, ollama, openai
from tests.gateway.backends.vendors.anthropic import AnthropicDialect
from tests.gateway.backends.vendors.dialect import Dialect
from tests.gateway.backends.vendors.responses import ResponsesDialect
from tests.switching import acceptance, chat_answers, claude_answers, other_answers
from tests.switching.scene import Scene


class Backend(Struct, frozen=True, kw_only=True):
    """One vendor. name: the adapter's. model: the vendor's name of it. path: of its base URL.

    proofs: checks those that it is sent. reads: formats of the proofs that it takes; those that it
            alone makes it always does.
    images: the model sees images.
    """

    name: str
    model: str
    dialect: Dialect
    scenes: Callable[[], Sequence[Scene]]
    path: str = ""
    proofs: acceptance.Proofs = acceptance.none
    reads: frozenset[str] = frozenset()
    images: bool = True

    @property
    def alias(self) -> str:
        """Return another name of the gateway's model."""
        return f"{self.name}-by-another-name"


CLAUDES: Final = frozenset({CLAUDE})

BACKENDS: Final = (
    Backend(
        name="openai",
        model="gpt-5.2",
        dialect=openai.OpenAIDialect(),
        scenes=chat_answers.openai,
        path="/v1",
    ),
    Backend(
        name="openai-responses",
        model="gpt-5.2",
        dialect=ResponsesDialect(),
        scenes=other_answers.responses,
        proofs=acceptance.items,
        path="/v1",
        reads=frozenset({OPENAI}),
    ),
    Backend(
        name="azure",
        model="gpt-5.2",
        dialect=openai.OpenAIDialect(),
        scenes=chat_answers.azure,
        path="/openai?api-version=2024-10-21",
    ),
    Backend(
        name="anthropic",
        model="claude-opus-4-6",
        dialect=AnthropicDialect(),
        scenes=lambda: claude_answers.anthropic("anthropic"),
        proofs=acceptance.claude,
        reads=CLAUDES,
    ),
    Backend(
        name="vertex-anthropic",
        model="claude-opus-4-6",
        dialect=AnthropicDialect(),
        scenes=lambda: claude_answers.anthropic("vertex-anthropic"),
        proofs=acceptance.claude,
        path="/v1/projects/p/locations/global/publishers/anthropic",
        reads=CLAUDES,
    ),
    Backend(
        name="bedrock",
        model="anthropic.claude-opus-4-6-v1",
        dialect=bedrock.BedrockDialect(),
        scenes=claude_answers.bedrock,
        proofs=acceptance.converse,
        reads=CLAUDES,
    ),
    Backend(
        name="gemini",
        model="gemini-3-flash-preview",
        dialect=gemini.GeminiDialect(),
        scenes=other_answers.gemini,
        proofs=acceptance.google,
        path="/v1beta",
        reads=frozenset({GEMINI}),
    ),
    Backend(
        name="mistral",
        model="magistral-medium-2509",
        dialect=openai.MistralDialect(),
        scenes=chat_answers.mistral,
        path="/v1",
    ),
    Backend(
        name="deepseek",
        model="deepseek-v4-flash",
        dialect=openai.OpenAIDialect(),
        scenes=chat_answers.deepseek,
        images=False,
    ),
    Backend(
        name="openrouter",
        model="anthropic/claude-sonnet-4.5",
        dialect=openai.OpenAIDialect(),
        scenes=chat_answers.openrouter,
        path="/api/v1",
        reads=frozenset({CLAUDE, GEMINI, OPENAI}),
    ),
    Backend(
        name="vllm",
        model="moonshotai/Kimi-K2-Thinking",
        dialect=openai.OpenAIDialect(),
        scenes=chat_answers.vllm,
        path="/v1",
    ),
    Backend(
        name="cohere",
        model="command-a-reasoning-08-2025",
        dialect=cohere.CohereDialect(),
        scenes=other_answers.cohere,
    ),
    Backend(
        name="ollama",
        model="gpt-oss:20b",
        dialect=ollama.OllamaDialect(),
        scenes=other_answers.ollama,
    ),
    Backend(
        name="databricks",
        model="databricks-claude-sonnet-4-5",
        dialect=openai.DatabricksDialect(),
        scenes=chat_answers.databricks,
        reads=CLAUDES,
    ),
)
