"""Bodies and frames of the fake MindIE server: tokens, TGI's text, chat."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from tests.stand_ins.mindie_model import END_ID, Said, example_text, text_of

Json = Mapping[str, object]

DEFAULT_NEW_TOKENS = 20
ENGINE_LIMIT = 4096
"""The server's maxIterTimes."""

PREFILL_MS = 45.5
DECODE_MS = 16.75
RANDOM_SEED = 846930886


class _Answer:
    """Generated tokens up to a limit, and the finish reason.

    native: this route's finish reasons for an end token, the limit and a stop string.
    """

    native = ("eos_token", "length", "stop_sequence")

    def __init__(self, said: Sequence[Said], limit: int, stops: Sequence[str]) -> None:
        self.streams = False
        self.said: list[Said] = list(said[: min(limit, ENGINE_LIMIT)])
        ended = bool(self.said) and self.said[-1][0] == END_ID
        self.word = self.native[0] if ended else self.native[1]
        self.text = text_of(self.said)
        found = [place for place in map(self.text.find, stops) if place >= 0]
        if found:
            self._stop_at(min(found))

    def abort(self, after: int, word: str) -> None:
        """Abort the answer after so many tokens."""
        self.said = self.said[:after]
        self.text = text_of(self.said)
        self.word = word

    def _stop_at(self, place: int) -> None:
        """Cut the text there; its tokens stay."""
        self.text = self.text[:place]
        self.word = self.native[2]
        kept: list[Said] = []
        shown = 0
        for one, text in self.said:
            kept.append((one, text[: max(0, place - shown)]))
            shown += len(text)
            if shown > place:
                break
        self.said = kept


def _parameters(body: Json) -> Json:
    return cast("Json", body.get("parameters") or {})


def _limit(body: Json) -> int:
    return cast("int", _parameters(body).get("max_new_tokens") or DEFAULT_NEW_TOKENS)


def _stops(value: object) -> Sequence[str]:
    return [value] if isinstance(value, str) else cast("Sequence[str]", value or ())


def _frame(body: Json) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"


class TokenAnswer(_Answer):
    """`/infer_token`.

    old: the older format: one id instead of a list, and none in a complete answer.
    """

    def __init__(self, body: Json, said: Sequence[Said], *, old: bool = False) -> None:
        super().__init__(said, _limit(body), ())
        self._old = old
        parameters = _parameters(body)
        self.streams = bool(body.get("stream"))
        self._details = bool(parameters.get("details"))
        seed = parameters.get("seed")
        self._seed = RANDOM_SEED if seed is None else seed

    def whole(self) -> str:
        ids = [one for one, _ in self.said]
        details = {**self._end(), **({} if self._old else {"generated_token_ids": ids})}
        answer: Json = {"generated_text": self.text}
        return json.dumps({**answer, "details": details} if self._details else answer)

    def frames(self) -> Iterator[str]:
        if not self.said:
            yield self._last(self._times(0), [])
        for place, (one, text) in enumerate(self.said):
            times = self._times(place)
            if place < len(self.said) - 1:
                yield _frame({**times, "token": {"id": self._ids([one]), "text": text}})
            else:
                yield self._last(times, [one])

    def _last(self, times: Json, ids: list[int]) -> str:
        details = self._end() if self._details else None
        end = {"generated_text": self.text, "details": details}
        return _frame({**times, **end, "token": {"id": self._ids(ids), "text": None}})

    def _ids(self, ids: list[int]) -> list[int] | int:
        return ids[0] if self._old and ids else ids

    def _times(self, place: int) -> Json:
        return {
            "prefill_time": PREFILL_MS if place == 0 else None,
            "decode_time": None if place == 0 else DECODE_MS,
        }

    def _end(self) -> Json:
        return {
            "finish_reason": self.word,
            "generated_tokens": len(self.said),
            "seed": self._seed,
        }


class TextAnswer(_Answer):
    """`/generate` and `/generate_stream`, in TGI's dialect."""

    def __init__(self, body: Json, said: Sequence[Said], prompt: int, streams: bool) -> None:
        parameters = _parameters(body)
        super().__init__(said, _limit(body), _stops(parameters.get("stop")))
        self.streams = streams
        self._prompt = prompt
        self._details = bool(parameters.get("details"))
        seed = parameters.get("seed")
        self._seed = RANDOM_SEED if seed is None else seed

    def whole(self) -> str:
        answer: Json = {"generated_text": self.text}
        tokens = [{"id": one, **_UNKNOWN, "text": None} for one, _ in self.said]
        details = {**self._end(), "prefill": [], "tokens": tokens}
        return json.dumps({"details": details, **answer} if self._details else answer)

    def frames(self) -> Iterator[str]:
        said = [([one], text) for one, text in self.said] or [([], "")]
        for place, (ids, text) in enumerate(said):
            last = place == len(said) - 1
            yield _frame(
                {
                    "token": {"id": ids, "text": text, **_UNKNOWN},
                    "generated_text": self.text if last else None,
                    "details": self._end() if last and self._details else None,
                }
            )

    def _end(self) -> Json:
        return {
            "prompt_tokens": self._prompt,
            "finish_reason": self.word,
            "generated_tokens": len(self.said),
            "seed": self._seed,
        }


_UNKNOWN: Json = {"logprob": None, "special": None}


class ChatAnswer(_Answer):
    """`/v1/chat/completions`: usage in each choice's last chunk, tool calls always a list."""

    native = ("stop", "length", "stop")

    def __init__(self, body: Json, said: Sequence[Said], prompt: int) -> None:
        limit = cast("int", body.get("max_tokens") or ENGINE_LIMIT)
        super().__init__(_shaped(body, said), limit, _stops(body.get("stop")))
        self.streams = bool(body.get("stream"))
        self._body = body
        self._prompt = prompt
        self._choices = range(cast("int", body.get("n") or 1))
        thinks = cast("Json", body.get("chat_template_kwargs") or {}).get("enable_thinking")
        self._thought = "Let me think." if thinks else ""
        self._calls = _calls(body)
        if self._calls:
            self.said, self.text, self.word = [], "", "tool_calls"

    def whole(self) -> str:
        message: dict[str, object] = {"role": "assistant", "content": self.text}
        if self._thought:
            message["reasoning_content"] = self._thought
        message["tool_calls"] = self._calls
        choices = [
            {
                "index": index,
                "message": message,
                "logprobs": self._logprobs(self.said),
                "finish_reason": self.word,
            }
            for index in self._choices
        ]
        usage = self._usage(len(self._choices))
        return json.dumps({**self._head("chat.completion"), "choices": choices, "usage": usage})

    def frames(self) -> Iterator[str]:
        for index in self._choices:
            yield self._chunk(index, {"role": "assistant", "content": ""})
        if self._thought:
            for index in self._choices:
                yield self._chunk(index, {"role": "assistant", "reasoning_content": self._thought})
        for place, call in enumerate(self._calls):
            for index in self._choices:
                yield self._chunk(index, {"tool_calls": [{"index": place, **call}]})
        for one in self.said[:-1]:
            for index in self._choices:
                yield self._chunk(index, {"role": "assistant", "content": one[1]}, [one])
        last = self.said[-1:]
        for index in self._choices:
            delta = {"role": "assistant", "content": text_of(last)}
            yield self._chunk(index, delta, last, self.word)
        yield "data: [DONE]\n\n"

    def _chunk(
        self, index: int, delta: Json, said: Sequence[Said] = (), finish: str | None = None
    ) -> str:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": self._logprobs(said),
            "finish_reason": finish,
        }
        usage = {"usage": self._usage(1)} if finish else {}
        return _frame({**self._head("chat.completion.chunk"), **usage, "choices": [choice]})

    def _head(self, kind: str) -> Json:
        return {
            "id": "endpoint_common_1",
            "object": kind,
            "created": 1_740_000_000,
            "model": self._body["model"],
        }

    def _usage(self, choices: int) -> Json:
        count = max(1, len(self.said)) * choices
        return {
            "prompt_tokens": self._prompt,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens": count,
            "completion_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self._prompt + count,
        }

    def _logprobs(self, said: Sequence[Said]) -> Json | None:
        if not self._body.get("logprobs") or not said:
            return None
        count = cast("int", self._body.get("top_logprobs") or 0)
        return {
            "content": [
                {
                    **_logprob(text, 0),
                    "top_logprobs": [_logprob(text, place) for place in range(count)],
                }
                for _, text in said
            ]
        }


def _logprob(text: str, place: int) -> Json:
    return {"token": text, "logprob": -0.25 * (place + 1), "bytes": list(text.encode())}


def _shaped(body: Json, said: Sequence[Said]) -> Sequence[Said]:
    """Return an answer in the requested format, still token by token."""
    form = cast("Json", body.get("response_format") or {})
    if form.get("type") not in ("json_object", "json_schema"):
        return said
    schema = cast("Json", form.get("json_schema") or {}).get("schema", {"type": "object"})
    text = example_text(schema)
    pieces = [text[place : place + 4] for place in range(0, len(text), 4)]
    return [*((1000 + place, piece) for place, piece in enumerate(pieces)), (END_ID, "")]


def _calls(body: Json) -> list[dict[str, object]]:
    """Return a call of the first or the named tool; none once there is a result."""
    tools = cast("Sequence[Json]", body.get("tools") or ())
    choice = body.get("tool_choice", "auto")
    messages = cast("Sequence[Json]", body["messages"])
    if not tools or choice == "none" or messages[-1].get("role") == "tool":
        return []
    functions = [cast("Json", tool["function"]) for tool in tools]
    if isinstance(choice, dict):
        wanted = cast("Json", cast("Json", choice)["function"])["name"]
        functions = [one for one in functions if one["name"] == wanted]
    arguments = example_text(functions[0].get("parameters", {"type": "object"}))
    function = {"name": functions[0]["name"], "arguments": arguments}
    return [{"function": function, "id": "call_JwmTNF3O", "type": "function"}]
