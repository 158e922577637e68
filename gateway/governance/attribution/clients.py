"""The client program of a request, by what it says of itself.

The name has no version: `openai-python`, `claude-code`. It is what the client claims, so it is
for reports, never for access.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from strowger_gateway.gateway.governance.attribution.section import ClientProgram

USER_AGENT: Final = b"user-agent"
ORIGINATOR: Final = b"originator"
TITLE: Final = b"x-title"
REFERER: Final = b"http-referer"

LONGEST: Final = 40
"""Characters of a name."""

_PRODUCT: Final = re.compile(r"[\w.+-]+(?: [\w.+-]+){0,3}(?=/|$)|[\w.+-]+", re.ASCII)
_ODD: Final = re.compile(r"[^a-z0-9]+")

_PRODUCTS: Final[Mapping[str, str]] = {
    "claude-cli": "claude-code",
    "claude-code": "claude-code",
    "codex-cli-rs": "codex",
    "codex-exec": "codex",
    "codex-tui": "codex",
    "codex-vscode": "codex",
    "codex-mcp-server": "codex",
    "codex-sdk-ts": "codex",
    "geminicli": "gemini-cli",
    "qwencode": "qwen-code",
    "kimicli": "kimi-cli",
    "roocode": "roo-code",
    "charm-crush": "crush",
    "githubcopilotchat": "github-copilot",
    "copilot": "github-copilot",
    "google-genai-sdk": "google-genai",
    "ai": "vercel-ai",
    "ai-sdk": "vercel-ai",
    "openrouter-sdk": "openrouter",
    "python": "aiohttp",
    "python-urllib": "python-urllib",
    "go-http-client": "go",
    "java-http-client": "java",
    "apache-httpclient": "java",
    "node": "node",
    "undici": "node",
    "node-fetch": "node",
    "postmanruntime": "postman",
    "mozilla": "browser",
    "semantic-kernel": "semantic-kernel",
}
"""Products whose names in reports are others; a product that is not here has its own."""

_FAMILIES: Final[Sequence[tuple[str, str]]] = (
    ("langchain4j", "langchain4j"),
    ("langchain", "langchain"),
    ("llama-index", "llama-index"),
    ("llamaindex", "llama-index"),
)
"""Products that begin so, because each of their packages is one."""

_SDKS: Final[Mapping[str, str]] = {
    "openai": "openai",
    "asyncopenai": "openai",
    "azureopenai": "openai",
    "asyncazureopenai": "openai",
    "anthropic": "anthropic",
    "asyncanthropic": "anthropic",
    "anthropicbedrock": "anthropic",
    "asyncanthropicbedrock": "anthropic",
    "anthropicvertex": "anthropic",
    "asyncanthropicvertex": "anthropic",
}
"""`OpenAI/Python 1.2.3`: the SDK, then its language instead of a version."""

_LANGUAGES: Final[Mapping[str, str]] = {
    "python": "python",
    "js": "node",
    "go": "go",
    "java": "java",
    "ruby": "ruby",
    "kotlin": "java",
    "csharp": "dotnet",
    "php": "php",
}

_TITLES: Final[Mapping[str, str]] = {
    "cline": "cline",
    "roo-code": "roo-code",
    "kilo-code": "kilo-code",
    "aider": "aider",
    "librechat": "librechat",
    "open-webui": "open-webui",
}
"""Applications that an SDK sends the requests of, by the `x-title` that they send."""

_SITES: Final[Mapping[str, str]] = {
    "cline.bot": "cline",
    "roocode.com": "roo-code",
    "kilocode.ai": "kilo-code",
    "aider.chat": "aider",
    "openwebui.com": "open-webui",
    "opencode.ai": "opencode",
}
"""The same by the host of `http-referer`."""


def client_of(fields: Mapping[bytes, bytes], own: Sequence[ClientProgram] = ()) -> str:
    """Return the name of a client program; "" if it says nothing that is a name.

    fields: the request's headers, names in lower case. own: the operator's table.

    The operator's table comes first, then what an application says of itself (`x-title`,
    `http-referer`, `originator`) in addition to the SDK's User-Agent, then its first product.
    https://www.rfc-editor.org/rfc/rfc9110#section-10.1.5
    """
    agent = _text(fields.get(USER_AGENT, b""))
    spelled = agent.lower()
    for one in own:
        if spelled.startswith(one.user_agent.lower()):
            return one.name
    return _application(fields) or _named(agent)


def _application(fields: Mapping[bytes, bytes]) -> str:
    """Return the known application that says who it is in a header of its own."""
    if TITLE in fields:
        found = _TITLES.get(_slug(_text(fields[TITLE])), "")
        if found:
            return found
    if REFERER in fields:
        host = _text(fields[REFERER]).partition("://")[2].partition("/")[0].removeprefix("www.")
        if host in _SITES:
            return _SITES[host]
    if ORIGINATOR in fields:
        return _PRODUCTS.get(_slug(_text(fields[ORIGINATOR])), "")
    return ""


def _named(agent: str) -> str:
    found = _PRODUCT.match(agent)
    if found is None:
        return ""
    product = _slug(found[0].partition("::")[0])
    if product in _SDKS:
        return _sdk(_SDKS[product], agent)
    for begin, name in _FAMILIES:
        if product.startswith(begin):
            return name
    return _PRODUCTS.get(product, product)


def _sdk(name: str, agent: str) -> str:
    """`openai-python` of `AsyncOpenAI/Python 1.2.3`."""
    version = agent.partition("/")[2]
    word = _slug(version.partition(" ")[0])
    if ".net" in version.lower():
        word = "csharp"
    return f"{name}-{_LANGUAGES[word]}" if word in _LANGUAGES else name


def _slug(text: str) -> str:
    return _ODD.sub("-", text.lower()).strip("-")[:LONGEST].rstrip("-")


def _text(value: bytes) -> str:
    return value[:200].decode("latin-1")
