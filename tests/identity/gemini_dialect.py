"""Google's Gemini API: what may differ."""

from typing import cast

import httpx
from google import genai
from google.genai import types

from tests.identity.differences import Difference
from tests.identity.recorded import Case, Dialect

Json = dict[str, object]

DIFFERENCES: tuple[Difference, ...] = (
    Difference("response_id", "other", "the answer's id is the gateway's, which its logs have"),
    Difference("*.function_call.args", "added", "a call without arguments has an empty object"),
)


async def read_answer(address: str, case: Case) -> object:
    """See Reader."""
    async with httpx.AsyncClient(timeout=10) as web:
        options = types.HttpOptions(base_url=address, api_version="v1beta", httpx_async_client=web)
        models = genai.Client(api_key="x", http_options=options).aio.models
        whole, streamed = models.generate_content, models.generate_content_stream  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # its stubs
        if not case.recording.streamed:
            answers = [await whole(model=case.model, contents="hi")]
        else:
            chunks = await streamed(model=case.model, contents="hi")
            answers = [one async for one in chunks]
    frames = [
        one.model_dump(mode="json", exclude_none=True, exclude={"sdk_http_response", "parsed"})
        for one in answers
    ]
    return put_together(frames)


def put_together(frames: list[Json]) -> Json:
    """The answer that the frames are pieces of: pieces of one text are joined."""
    whole: Json = {}
    candidates: dict[int, Json] = {}
    for frame in frames:
        for one in cast("list[Json]", frame.pop("candidates", [])):
            index = cast("int", one.pop("index", 0))
            into = candidates.setdefault(index, {"parts": []})
            content = cast("Json", one.pop("content", {}))
            for part in cast("list[Json]", content.pop("parts", [])):
                _add(cast("list[Json]", into["parts"]), part)
            into |= {**content, **one}
        whole |= frame
    if candidates:
        whole["candidates"] = [candidates[index] for index in sorted(candidates)]
    return whole


def _add(parts: list[Json], part: Json) -> None:
    """An empty text says nothing but its signature, which belongs to the text before it."""
    last = parts[-1] if parts else {}
    kind = {"text", "thought"}
    if part == {"text": ""}:
        return
    same = "text" in part and "text" in last and part.get("thought") == last.get("thought")
    if same and last.keys() <= kind:
        parts[-1] = {**last, **part, "text": f"{last['text']}{part['text']}"}
    else:
        parts.append(part)


DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        name="gemini",
        task="chat",
        reader=read_answer,
        differences=DIFFERENCES,
        adapters={"gemini": ("gemini/",)},
        surface="",
        vendor={"gemini": ""},
    ),
)
