"""Send one request to one backend through a running gateway, and return the outcome."""

import json
from typing import Literal, cast

import httpx
from msgspec import Struct

from tests.matrix.questions import Json, Question, Said


class Outcome(Struct, frozen=True, kw_only=True):
    """reason: of a rejection, without the backend's name. dropped: fields that were dropped."""

    kind: Literal["works", "refused"]
    reason: str = ""
    dropped: tuple[str, ...] = ()


async def ask(client: httpx.AsyncClient, question: Question, model: str) -> Outcome:
    """Raises AssertionError for anything other than a response or a rejection with a reason."""
    path = question.path.format(model=model)
    body = question.body if "{model}" in question.path else {"model": model, **question.body}
    answer = await client.post(path, json=body)
    where = f"{question.surface} {question.feature} -> {model}"
    if answer.status_code == 400:
        return Outcome(kind="refused", reason=_reason(answer.json(), where))
    assert answer.status_code == 200, f"{where}: {answer.status_code} {answer.text}"
    said = _said(answer)
    assert not any(frame.get("error") for frame in said.frames), f"{where}: {answer.text}"
    try:
        question.judge(said)
    except (AssertionError, KeyError, IndexError, TypeError, ValueError) as exc:
        raise AssertionError(f"{where}: {exc!r} in {answer.text[:600]}") from exc
    return Outcome(kind="works", dropped=said.dropped)


def _said(answer: httpx.Response) -> Said:
    named = answer.headers.get("x-gateway-dropped-params", "")
    dropped = tuple(named.split(", ")) if named else ()
    if not answer.headers["content-type"].startswith(("text/event-stream", "application/x-ndjson")):
        return Said(frames=(cast("Json", answer.json()),), dropped=dropped)
    # Also without comments, which come when other tests keep the engine busy.
    shown = [
        one for one in answer.text.splitlines() if one and not one.startswith(("event: ", ":"))
    ]
    lines = (line.removeprefix("data: ") for line in shown)
    frames = [cast("Json", json.loads(line)) for line in lines if line != "[DONE]"]
    assert frames, "an empty stream"
    return Said(frames=tuple(frames), dropped=dropped)


def _reason(body: Json, where: str) -> str:
    """The envelope's message, whose first words may name the backend: PROVIDER/MODEL."""
    error = body.get("error", body)
    text = str(cast("Json", error)["message"]) if isinstance(error, dict) else str(error)
    assert len(text) > 10, f"{where}: refused without a reason: {text!r}"
    first, _, rest = text.partition(": ")
    return rest if "/" in first and " " not in first else text
