"""Client programs have one name each, whatever their versions, systems and packages are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.governance.attribution.clients import LONGEST, client_of
from strowger_gateway.gateway.governance.attribution.section import ClientProgram

AGENTS = {
    "claude-cli/2.1.2 (external, cli)": "claude-code",
    "codex_cli_rs/0.77.0 (Mac OS 26.2.0; arm64) iTerm.app/3.6.6": "codex",
    "codex_exec/0.105.0 (Ubuntu 24.4.0; x86_64) unknown": "codex",
    "GeminiCLI/v25.2.1 (darwin; arm64)": "gemini-cli",
    "GeminiCLI/0.29.5/gemini-3-pro (linux; x64)": "gemini-cli",
    "QwenCode/0.1.0 (linux; x64)": "qwen-code",
    "opencode/1.1.8 ai-sdk/provider-utils/3.0.20 runtime/bun/1.3.5": "opencode",
    "RooCode/3.30.0": "roo-code",
    "OpenAI/Python 3.54.0": "openai-python",
    "AsyncOpenAI/Python 3.54.0": "openai-python",
    "AsyncAzureOpenAI/Python 1.99.1": "openai-python",
    "OpenAI/JS 6.9.1": "openai-node",
    "OpenAI/Go 3.8.1": "openai-go",
    "OpenAI/Java 4.9.0": "openai-java",
    "OpenAI::Client/Ruby 0.35.1": "openai-ruby",
    "OpenAI/2.7.0 (.NET 9.0.10; Microsoft Windows 10.0.26100)": "openai-dotnet",
    "Anthropic/Python 2.12.0": "anthropic-python",
    "AsyncAnthropic/Python 2.12.0": "anthropic-python",
    "Anthropic/JS 0.70.0": "anthropic-node",
    "AnthropicBedrock/Python 0.75.0": "anthropic-python",
    "google-genai-sdk/3.4.0 gl-python/3.12.3": "google-genai",
    "langchainjs-openai/1.0.0 ((node/v22.19.0; linux; x64))": "langchain",
    "langchain-google-genai/4.0.0": "langchain",
    "langchain4j-openai/1.8.0": "langchain4j",
    "litellm/1.80.0": "litellm",
    "ai/5.0.97 ai-sdk/openai/2.0.68 runtime/node.js/22": "vercel-ai",
    "ollama-python/0.6.3 (x86_64 linux) Python/3.12.3": "ollama-python",
    "curl/8.5.0": "curl",
    "python-requests/2.32.3": "python-requests",
    "python-httpx/0.28.1": "python-httpx",
    "Python/3.12 aiohttp/3.13.2": "aiohttp",
    "Go-http-client/1.1": "go",
    "node": "node",
    "axios/1.13.2": "axios",
    "PostmanRuntime/7.49.1": "postman",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36": "browser",
    "Acme Billing/4.2": "acme-billing",
    "acme_billing": "acme-billing",
    "": "",
    "(unknown)": "",
    "/1.0": "",
}


@pytest.mark.parametrize("agent", AGENTS)
def test_a_user_agent_is_one_name_without_its_version(agent: str) -> None:
    assert client_of({b"user-agent": agent.encode()}) == AGENTS[agent]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({b"x-title": b"Cline", b"http-referer": b"https://cline.bot"}, "cline"),
        ({b"http-referer": b"https://www.aider.chat/docs"}, "aider"),
        ({b"x-title": b"Kilo Code"}, "kilo-code"),
        ({b"originator": b"codex_vscode"}, "codex"),
        ({b"x-title": b"An app of ours"}, "openai-node"),
        ({b"http-referer": b"https://intranet.example/cline.bot"}, "openai-node"),
    ],
)
def test_an_application_that_says_who_it_is_wins_over_the_sdk_that_sends_for_it(
    fields: dict[bytes, bytes], name: str
) -> None:
    assert client_of({b"user-agent": b"OpenAI/JS 6.9.1", **fields}) == name


def test_the_operators_table_wins_over_everything_and_its_first_match_over_later_ones() -> None:
    own = (
        ClientProgram(name="crawler of search", user_agent="OPENAI/js 6."),
        ClientProgram(name="others", user_agent="openai/"),
    )

    assert client_of({b"user-agent": b"OpenAI/JS 6.9", b"x-title": b"Cline"}, own) == own[0].name
    assert client_of({b"user-agent": b"OpenAI/Python 3.54.0"}, own) == "others"
    assert client_of({b"user-agent": b"curl/8.5.0"}, own) == "curl"


@given(st.dictionaries(st.sampled_from((b"user-agent", b"x-title", b"originator")), st.binary()))
def test_whatever_a_client_sends_the_name_is_short_and_of_plain_characters(
    fields: dict[bytes, bytes],
) -> None:
    name = client_of(fields)

    assert len(name) <= LONGEST
    assert all(one.isascii() and (one.isalnum() or one == "-") for one in name)
