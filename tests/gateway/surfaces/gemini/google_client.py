"""Google's own client of the gateway, and what a caller sees of an answer."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import httpx
from google import genai
from google.genai import types
from msgspec import Struct

from tests.gateway.backends.vendors.dialect import Json

KEY = "x"


@asynccontextmanager
async def google_client(
    url: str, *, key: str = KEY, version: str = "v1beta"
) -> AsyncGenerator[genai.Client, None]:
    """url: the gateway's, without a path. It uses httpx, which warns of nothing."""
    async with httpx.AsyncClient(timeout=60) as web:
        options = types.HttpOptions(base_url=url, api_version=version, httpx_async_client=web)
        yield genai.Client(api_key=key, http_options=options)


class Heard(Struct, frozen=True, kw_only=True):
    """An answer. parts: all of it, in order, as a client keeps them for the next turn."""

    parts: tuple[types.Part, ...]
    finish: str
    counts: types.GenerateContentResponseUsageMetadata | None
    frames: Sequence[types.GenerateContentResponse]

    @property
    def text(self) -> str:
        return "".join([one.text or "" for one in self.parts if not one.thought])

    @property
    def thought(self) -> str:
        return "".join([one.text or "" for one in self.parts if one.thought])

    @property
    def calls(self) -> list[types.FunctionCall]:
        return [one.function_call for one in self.parts if one.function_call is not None]

    @property
    def content(self) -> types.Content:
        """The turn as a client returns it."""
        return types.Content(role="model", parts=list(self.parts))


async def ask(
    client: genai.Client,
    model: str,
    contents: Sequence[types.Content | str],
    config: types.GenerateContentConfig | None = None,
    *,
    stream: bool,
) -> Heard:
    """Send a conversation; automatic calls of Python functions are off."""
    models = client.aio.models
    whole, streamed = models.generate_content, models.generate_content_stream  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # its stubs
    turns: list[types.Content] = [
        types.Content(role="user", parts=[types.Part(text=one)]) if isinstance(one, str) else one
        for one in contents
    ]
    if not stream:
        frames = [await whole(model=model, contents=[*turns], config=config)]
    else:
        chunks = await streamed(model=model, contents=[*turns], config=config)
        frames = [one async for one in chunks]
    parts: list[types.Part] = []
    finishes: list[str] = []
    for frame in frames:
        for candidate in frame.candidates or ():
            parts += (candidate.content.parts or ()) if candidate.content else ()
            if candidate.finish_reason is not None:
                finishes.append(candidate.finish_reason.value)
    (finish,) = finishes or ("",)
    return Heard(parts=tuple(parts), finish=finish, counts=frames[-1].usage_metadata, frames=frames)


def without_thoughts(turn: types.Content) -> types.Content:
    """The turn as gemini-cli keeps it."""
    return types.Content(role="model", parts=[one for one in turn.parts or () if not one.thought])


def functions(*names: str, **parameters: Json) -> list[types.Tool]:
    """Tools without a description; parameters: JSON schemas by the tool's name."""
    return [
        types.Tool(
            function_declarations=[
                types.FunctionDeclaration(
                    name=one,
                    description=f"The {one}.",
                    parameters_json_schema=parameters.get(one),
                )
                for one in names
            ]
        )
    ]
