"""A client of the Gemini API that keeps a conversation, in the three ways of `clients.py`."""

import json
from collections.abc import Sequence
from typing import cast

from google.genai.types import GenerateContentResponse

from tests.gateway.backends.vendors.dialect import Json, dicts, inner
from tests.switching.reply import Echo, Item, Parameters, Reply, events


class GeminiClient:
    """Google's Gemini API. `sdk` is google-genai; `plain` keeps neither ids nor signatures."""

    proves = True

    def sends(self, model: str, body: Json, *, stream: bool) -> tuple[str, Json]:
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"/v1beta/models/{model}:{verb}", body

    def user(self, text: str, image: str = "") -> Json:
        blob = {"inlineData": {"mimeType": "image/png", "data": image}}
        return {"role": "user", "parts": [{"text": text}, *([blob] if image else [])]}

    def results(self, reply: Reply, texts: Sequence[str]) -> list[Json]:
        parts = [
            {
                "functionResponse": {
                    **({"id": id} if id else {}),
                    "name": name,
                    "response": {"result": text},
                }
            }
            for (id, name, _), text in zip(reply.calls, texts, strict=True)
        ]
        return [{"role": "user", "parts": parts}] if parts else []

    def body(self, conversation: Sequence[Json], functions: Parameters) -> Json:
        declared = [
            {"name": name, "parametersJsonSchema": schema} for name, schema in functions.items()
        ]
        return {
            "contents": conversation,
            "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
            **({"tools": [{"functionDeclarations": declared}]} if declared else {}),
        }

    def reply(self, answer: bytes, echo: Echo, *, stream: bool) -> Reply:
        frames = events(answer) if stream else [cast("Item", json.loads(answer))]
        if echo == "sdk":
            frames = [
                GenerateContentResponse._from_response(  # pyright: ignore[reportPrivateUsage]  # as the client
                    response={**one}, kwargs={}
                ).model_dump(exclude_none=True, by_alias=True, mode="json")
                for one in frames
            ]
        parts = [
            part
            for frame in frames
            for one in dicts(frame.get("candidates"))
            for part in dicts(inner(one, "content").get("parts"))
        ]
        calls = [inner(one, "functionCall") for one in parts if "functionCall" in one]
        kept = _consolidated(parts)
        ids = echo != "plain"
        if echo == "plain":
            kept = [
                {"text": one["text"]}
                if "text" in one
                else {
                    "functionCall": {
                        n: v for n, v in inner(one, "functionCall").items() if n != "id"
                    }
                }
                for one in parts
                if "functionCall" in one or (one.get("text") and not one.get("thought"))
            ]
        return Reply(
            items=[{"role": "model", "parts": kept}],
            text="".join(str(one.get("text", "")) for one in parts if not one.get("thought")),
            calls=[
                (str(one.get("id", "")) if ids else "", str(one["name"]), inner(one, "args"))
                for one in calls
            ],
        )


def _consolidated(parts: Sequence[Item]) -> list[Item]:
    """Join the pieces of a text, as gemini-cli does; of a thought too."""
    joined: list[Item] = []
    for part in parts:
        last = joined[-1] if joined else {}
        same = part.keys() == last.keys() <= {"text", "thought"}
        if same:
            joined[-1] = {**last, "text": f"{last['text']}{part['text']}"}
        else:
            joined.append(part)
    return joined


class CliClient(GeminiClient):
    """gemini-cli 0.61.0: it returns no part that is a thought."""

    def reply(self, answer: bytes, echo: Echo, *, stream: bool) -> Reply:
        whole = super().reply(answer, "everything", stream=stream)
        (turn,) = whole.items
        kept = [one for one in dicts(turn["parts"]) if not one.get("thought")]
        return Reply(items=[{**turn, "parts": kept}], text=whole.text, calls=whole.calls)
