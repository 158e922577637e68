"""Every agent: its API, its package and the jobs that it can do."""

import re
from collections.abc import Callable, Collection
from typing import Final, Literal

from msgspec import Struct

from tests.agents.jobs import ALWAYS
from tests.agents.starting import (
    Run,
    Started,
    claude,
    cline,
    codex,
    codex_with_catalog,
    gemini,
    node,
    opencode,
    python,
    qwen,
)
from tests.clients.packages import AGENTS as PACKAGES
from tests.clients.packages import Client

Api = Literal["Responses", "Messages", "Chat completions", "Gemini"]


class Agent(Struct, frozen=True, kw_only=True):
    """package: None for what the tests have installed.

    jobs: the names of those that it does with three backends, () for none. everywhere: it does the
          first job with every backend. gives_up: statuses that end it after seconds, also without
          a gateway.
    """

    name: str
    title: str
    api: Api
    package: Client | None
    start: Callable[[Run], Started]
    jobs: Collection[str] = ()
    everywhere: bool = True
    gives_up: Collection[int] = ()

    @property
    def version(self) -> str:
        pin = "" if self.package is None else self.package.pins[0]
        return re.split("[=@]", pin)[-1]

    @property
    def named(self) -> str:
        """Return its name and version, as tables show them."""
        return f"{self.title} {self.version}".strip()


AGENTS: Final = (
    Agent(
        name="claude-code",
        title="Claude Code",
        api="Messages",
        package=PACKAGES["claude-code"],
        start=claude,
        jobs=(*ALWAYS, "search", "pdf"),
    ),
    Agent(
        name="codex",
        title="codex",
        api="Responses",
        package=PACKAGES["codex"],
        start=codex,
        jobs=(*ALWAYS, "search"),
        gives_up=(429,),
    ),
    Agent(
        name="codex-catalog",
        title="codex, `model_catalog_json`",
        api="Responses",
        package=PACKAGES["codex"],
        start=codex_with_catalog,
    ),
    Agent(
        name="opencode-messages",
        title="opencode, `@ai-sdk/anthropic`",
        api="Messages",
        package=PACKAGES["opencode"],
        start=opencode("@ai-sdk/anthropic"),
        jobs=(*ALWAYS, "pdf"),
    ),
    Agent(
        name="opencode-responses",
        title="opencode, `@ai-sdk/openai`",
        api="Responses",
        package=PACKAGES["opencode"],
        start=opencode("@ai-sdk/openai"),
        jobs=(*ALWAYS, "pdf"),
    ),
    Agent(
        name="opencode-chat",
        title="opencode, `@ai-sdk/openai-compatible`",
        api="Chat completions",
        package=PACKAGES["opencode"],
        start=opencode("@ai-sdk/openai-compatible", "image", "pdf"),
        jobs=(*ALWAYS, "pdf"),
    ),
    Agent(
        name="qwen-code",
        title="qwen-code",
        api="Chat completions",
        package=PACKAGES["qwen-code"],
        start=qwen,
        jobs=ALWAYS,
    ),
    Agent(
        name="gemini-cli",
        title="gemini-cli",
        api="Gemini",
        package=PACKAGES["gemini-cli"],
        start=gemini,
        jobs=(*ALWAYS, "search", "pdf"),
    ),
    Agent(
        name="cline",
        title="cline",
        api="Chat completions",
        package=PACKAGES["cline"],
        start=cline,
        jobs=ALWAYS,
        everywhere=False,
    ),
    Agent(
        name="openai-agents-responses",
        title="openai-agents, `OpenAIResponsesModel`",
        api="Responses",
        package=PACKAGES["openai-agents"],
        start=python("openai_agents.py", "responses", "openai-agents"),
    ),
    Agent(
        name="openai-agents-chat",
        title="openai-agents, `OpenAIChatCompletionsModel`",
        api="Chat completions",
        package=PACKAGES["openai-agents"],
        start=python("openai_agents.py", "chat", "openai-agents"),
    ),
    Agent(
        name="pydantic-ai-messages",
        title="pydantic-ai, `AnthropicModel`",
        api="Messages",
        package=PACKAGES["pydantic-ai-agents"],
        start=python("pydantic_ai_agent.py", "messages", "pydantic-ai-agents"),
    ),
    Agent(
        name="pydantic-ai-responses",
        title="pydantic-ai, `OpenAIResponsesModel`",
        api="Responses",
        package=PACKAGES["pydantic-ai-agents"],
        start=python("pydantic_ai_agent.py", "responses", "pydantic-ai-agents"),
    ),
    Agent(
        name="pydantic-ai-chat",
        title="pydantic-ai, `OpenAIChatModel`",
        api="Chat completions",
        package=PACKAGES["pydantic-ai-agents"],
        start=python("pydantic_ai_agent.py", "chat", "pydantic-ai-agents"),
    ),
    Agent(
        name="ai-sdk",
        title="AI SDK, `createOpenAI(…)(model)`",
        api="Responses",
        package=PACKAGES["ai-sdk-agents"],
        start=node("ai_sdk_agent.mjs", "responses", "ai-sdk-agents"),
        jobs=(*ALWAYS, "search", "pdf"),
        everywhere=False,
    ),
    Agent(
        name="ai-sdk-messages",
        title="AI SDK, `@ai-sdk/anthropic`",
        api="Messages",
        package=PACKAGES["ai-sdk-agents"],
        start=node("ai_sdk_agent.mjs", "messages", "ai-sdk-agents"),
        jobs=(*ALWAYS, "search", "pdf"),
        everywhere=False,
    ),
    Agent(
        name="ai-sdk-chat",
        title="AI SDK, `@ai-sdk/openai-compatible`",
        api="Chat completions",
        package=PACKAGES["ai-sdk-agents"],
        start=node("ai_sdk_agent.mjs", "chat", "ai-sdk-agents"),
        jobs=(*ALWAYS, "pdf"),
        everywhere=False,
    ),
    Agent(
        name="langchain-chat",
        title="LangChain, `ChatOpenAI`",
        api="Chat completions",
        package=PACKAGES["langchain"],
        start=python("langchain_agent.py", "chat", "langchain"),
        jobs=(*ALWAYS, "pdf"),
        everywhere=False,
    ),
    Agent(
        name="langchain-responses",
        title="LangChain, `ChatOpenAI`, `use_responses_api`",
        api="Responses",
        package=PACKAGES["langchain"],
        start=python("langchain_agent.py", "responses", "langchain"),
        jobs=(*ALWAYS, "search", "pdf"),
        everywhere=False,
    ),
    Agent(
        name="langchain-messages",
        title="LangChain, `ChatAnthropic`",
        api="Messages",
        package=PACKAGES["langchain"],
        start=python("langchain_agent.py", "messages", "langchain"),
        jobs=(*ALWAYS, "search", "pdf"),
        everywhere=False,
    ),
    Agent(
        name="autogen",
        title="AutoGen",
        api="Chat completions",
        package=PACKAGES["autogen"],
        start=python("autogen_agent.py", "whole", "autogen"),
        jobs=ALWAYS,
        everywhere=False,
    ),
    Agent(
        name="instructor-chat",
        title="instructor, `openai`",
        api="Chat completions",
        package=PACKAGES["instructor"],
        start=python("instructor_agent.py", "chat", "instructor"),
        jobs=(*ALWAYS, "pdf"),
        everywhere=False,
    ),
    Agent(
        name="instructor-messages",
        title="instructor, `anthropic`",
        api="Messages",
        package=PACKAGES["instructor"],
        start=python("instructor_agent.py", "messages", "instructor"),
        jobs=(*ALWAYS, "pdf"),
        everywhere=False,
    ),
    Agent(
        name="anthropic-node",
        title="`@anthropic-ai/sdk`, `toolRunner`",
        api="Messages",
        package=PACKAGES["anthropic-node"],
        start=node("anthropic_runner.mjs", "stream", "anthropic-node"),
    ),
    Agent(
        name="openai-node-responses",
        title="`openai` for Node, `ResponsesToolRunner`",
        api="Responses",
        package=PACKAGES["openai-node"],
        start=node("openai_runner.mjs", "responses", "openai-node"),
    ),
    Agent(
        name="openai-node-chat",
        title="`openai` for Node, `runTools`",
        api="Chat completions",
        package=PACKAGES["openai-node"],
        start=node("openai_runner.mjs", "chat", "openai-node"),
    ),
    Agent(
        name="google-node",
        title="`@google/genai`, `chats`",
        api="Gemini",
        package=PACKAGES["google-node"],
        start=node("google_runner.mjs", "stream", "google-node"),
    ),
    Agent(
        name="google-python",
        title="`google-genai` for Python, automatic calling, streamed",
        api="Gemini",
        package=None,
        start=python("google_runner.py", "stream"),
    ),
    Agent(
        name="google-python-whole",
        title="`google-genai` for Python, automatic calling, whole",
        api="Gemini",
        package=None,
        start=python("google_runner.py", "whole"),
    ),
    Agent(
        name="anthropic-python",
        title="`anthropic` for Python, `tool_runner`, streamed",
        api="Messages",
        package=None,
        start=python("anthropic_runner.py", "stream"),
    ),
    Agent(
        name="anthropic-python-whole",
        title="`anthropic` for Python, `tool_runner`, whole",
        api="Messages",
        package=None,
        start=python("anthropic_runner.py", "whole"),
    ),
    Agent(
        name="openai-python",
        title="`openai` for Python, `ResponsesToolRunner`, streamed",
        api="Responses",
        package=None,
        start=python("openai_runner.py", "stream"),
    ),
    Agent(
        name="openai-python-whole",
        title="`openai` for Python, `ResponsesToolRunner`, whole",
        api="Responses",
        package=None,
        start=python("openai_runner.py", "whole"),
    ),
)
