"""A gateway with the prompt `support`, and its vendor."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx

from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Provider, provider

ADMIN_KEY = "key-of-the-operator"
FIRST = "You help customers of {{ company | Example Ltd }}.\n"
SECOND = (
    "You help {{ customer }} of {{ company | Example Ltd }}.\n"
    "--- user ---\nMy name is {{ customer }}.\n--- assistant ---\nHello!\n"
)
THIRD = "Be brief.\n--- user ---\nSummarise: {{ text }}\n"
FOURTH = "Summarise what the user says: {{ text }}\n"
TEXTS = {"support@1": FIRST, "support@2": SECOND, "summary@a": THIRD, "summary@b": FOURTH}


def written(folder: Path, texts: Mapping[str, str] = TEXTS) -> str:
    """Write the files of prompts; return the section that names them."""
    prompts: dict[str, list[str]] = {}
    for ref, text in texts.items():
        name, _, version = ref.partition("@")
        file = folder / f"{name}-{version}.md"
        file.write_text(text)
        prompts.setdefault(name, []).append(f"{{version: {version}, file: {file}}}")
    lines = [
        f"  - {{name: {name}, default: {versions[0][10:].partition(',')[0]}, "
        f"longest_value: 2000, versions: [{', '.join(versions)}]}}"
        for name, versions in prompts.items()
    ]
    return "\n".join(["prompts:", *lines])


def config(
    base_url: str,
    folder: Path,
    more: str = "",
    model_more: str = "",
    files: Mapping[str, str] = TEXTS,
) -> str:
    """more: other sections. model_more: settings of the model `chat`."""
    return f"""
auth: {{admin_key: {ADMIN_KEY}}}
providers: [{{name: a, adapter: openai, base_url: {base_url}, api_key: k}}]
models:
  - name: chat
    retry: {{backoff_s: 0, max_backoff_s: 0}}
    backends: [{{provider: a, model: m}}]
    {model_more}
{written(folder, files)}
{more}
"""


@asynccontextmanager
async def prompted_gateway(
    folder: Path,
    more: str = "",
    model_more: str = "",
    files: Mapping[str, str] = TEXTS,
) -> AsyncGenerator[tuple[Serving, Provider], None]:
    """See `config`."""
    async with provider() as vendor:
        text = config(vendor.base_url, folder, more, model_more, files)
        async with serving(text, folder) as gateway:
            yield gateway, vendor


async def send(
    gateway: Serving,
    body: Mapping[str, object],
    path: str = "/v1/chat/completions",
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        return await client.post(path, json={"model": "chat", **body}, headers=headers)


async def past(gateway: Serving, answer: httpx.Response) -> dict[str, Any]:
    """Return the request of an answer as operators see it."""
    bearer = {"authorization": f"Bearer {ADMIN_KEY}"}
    place = f"/admin/requests/{answer.headers['x-gateway-request-id']}"
    async with httpx.AsyncClient(base_url=gateway.url, headers=bearer, timeout=60) as client:
        return (await client.get(place)).json()


def recorded(gateway: Serving) -> Mapping[str, object]:
    """Return the attributes of the last request in the access log."""
    return gateway.access_lines()[-1].attributes or {}


def messages(vendor: Provider) -> list[dict[str, Any]]:
    """What the vendor got last."""
    return cast("list[dict[str, Any]]", vendor.requests[-1].json["messages"])


def texts(vendor: Provider) -> list[tuple[str, str]]:
    """Role and text of each message of the vendor's last request."""
    return [(one["role"], one["content"]) for one in messages(vendor)]
