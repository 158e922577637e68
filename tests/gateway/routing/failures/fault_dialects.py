"""Answers of "hello" in two tokens, and errors, in each provider's dialect.

The request's path selects the dialect. Token 11 is "hel", 12 is "lo".
"""

import json
from collections.abc import Mapping
from typing import Protocol, cast

from tests.stand_ins.mindie_answers import DECODE_MS, PREFILL_MS
from tests.stand_ins.provider import Answer, Received, answers, chat_body, delta_body

Json = Mapping[str, object]
NO_END = b"0\r\n\r\n"
"""The body ends as HTTP wants it."""


class Dialect(Protocol):
    """One provider's words."""

    def streams(self, request: Received) -> bool: ...

    async def answers(self, request: Received, answer: Answer) -> None:
        """As one that works."""
        ...

    async def first(self, answer: Answer) -> None:
        """The head of a stream, and its first token."""
        ...

    async def continues(self, request: Received, answer: Answer) -> None:
        """The rest of a stream whose beginning is in the request."""
        ...

    async def more(self, answer: Answer) -> None:
        """Another token, for as long as it goes on."""
        ...

    async def rest(self, answer: Answer) -> None:
        """The second token, and the end."""
        ...

    async def before(self, answer: Answer) -> None:
        """The head of a stream, and what comes before its first token, if anything does."""
        ...

    def broken(self) -> bytes:
        """A frame that cannot be read."""
        ...

    def endless(self) -> Json:
        """A whole answer without its end."""
        ...

    def error(self, more: Json) -> Json:
        """The body of an error."""
        ...

    async def marker(self, request: Received, answer: Answer) -> None:
        """An answer that says of itself that it has failed."""
        ...


class OpenAI:
    def streams(self, request: Received) -> bool:
        return bool(request.json.get("stream"))

    async def answers(self, request: Received, answer: Answer) -> None:
        await answers(request, answer)

    async def first(self, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("hel")

    async def continues(self, request: Received, answer: Answer) -> None:
        body = request.json
        if "prompt" in body:
            assert str(body["prompt"]).startswith("hihel")
        else:
            last = cast("list[Json]", body["messages"])[-1]
            assert last["role"] == "assistant"
            assert str(last["content"]).startswith("hel")
            assert body["continue_final_message"] is True
        await answer.begin_stream()
        await self.rest(answer)

    async def more(self, answer: Answer) -> None:
        await answer.text(" la")

    async def rest(self, answer: Answer) -> None:
        await answer.text("lo")
        await answer.end_stream()

    async def before(self, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.event(delta_body({"role": "assistant", "content": ""}))

    def broken(self) -> bytes:
        return b'data: {"choices":[{"del\n\n'

    def endless(self) -> Json:
        return {"id": "c", "object": "chat.completion", "choices": []}

    def error(self, more: Json) -> Json:
        return {"error": {"message": "boom", **more}}

    async def marker(self, request: Received, answer: Answer) -> None:
        if self.streams(request):
            await answer.begin_stream()
            await answer.event({"error": {"message": "engine died", "code": 500}})
            await answer.end_stream(None)
        else:
            await answer.json(chat_body("half an ans", "error"))


class MindIE:
    """`/infer_token`, which the gateway has streamed for every client."""

    def streams(self, request: Received) -> bool:
        return True

    async def answers(self, request: Received, answer: Answer) -> None:
        assert request.json["input_id"] == [5, 6, 7]
        await self.first(answer)
        await self.rest(answer)

    async def first(self, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.event(self._step(11, "hel", prefill=PREFILL_MS))

    async def continues(self, request: Received, answer: Answer) -> None:
        assert cast("list[int]", request.json["input_id"])[:4] == [5, 6, 7, 11]
        await answer.begin_stream()
        await self._end(answer, "lo", "length", [12])

    async def more(self, answer: Answer) -> None:
        await answer.event(self._step(13, " la", decode=DECODE_MS))

    async def rest(self, answer: Answer) -> None:
        await self._end(answer, "hello", "length", [12])

    async def before(self, answer: Answer) -> None:
        await answer.begin_stream()

    def broken(self) -> bytes:
        return b'data: {"prefill_time":null,"tok\n\n'

    def endless(self) -> Json:
        raise NotImplementedError("it answers in streams")

    def error(self, more: Json) -> Json:
        return {"error": "boom", "error_type": "Generation Error"}

    async def marker(self, request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await self._end(answer, "", "invalid flag", [])

    async def _end(self, answer: Answer, text: str, word: str, ids: list[int]) -> None:
        count = 2 if ids else 0
        details = {"finish_reason": word, "generated_tokens": count, "seed": 7}
        step = self._step(ids, None, decode=DECODE_MS)
        await answer.event({**step, "generated_text": text, "details": details})
        await answer.raw(NO_END)

    def _step(
        self,
        token: int | list[int],
        text: str | None,
        prefill: float | None = None,
        decode: float | None = None,
    ) -> Json:
        ids = [token] if isinstance(token, int) else token
        return {"prefill_time": prefill, "decode_time": decode, "token": {"id": ids, "text": text}}


class MindIEText:
    """`/generate` and `/generate_stream`, in TGI's dialect."""

    def streams(self, request: Received) -> bool:
        return request.path.endswith("_stream")

    async def answers(self, request: Received, answer: Answer) -> None:
        assert request.json["inputs"] == "hi"
        if self.streams(request):
            await self.first(answer)
            await self.rest(answer)
        else:
            await answer.json({"generated_text": "hello", "details": self._details("length")})

    async def first(self, answer: Answer) -> None:
        await answer.begin_stream()
        await self._token(answer, 11, "hel")

    async def continues(self, request: Received, answer: Answer) -> None:
        assert str(request.json["inputs"]).startswith("hihel")
        await answer.begin_stream()
        await self._token(answer, 12, "lo", "lo", self._details("length"))
        await answer.raw(NO_END)

    async def more(self, answer: Answer) -> None:
        await self._token(answer, 13, " la")

    async def rest(self, answer: Answer) -> None:
        await self._token(answer, 12, "lo", "hello", self._details("length"))
        await answer.raw(NO_END)

    async def before(self, answer: Answer) -> None:
        await answer.begin_stream()

    def broken(self) -> bytes:
        return b'data: {"token":{"id":[12],"te\n\n'

    def endless(self) -> Json:
        return {"generated_text": "hello", "details": None}

    def error(self, more: Json) -> Json:
        return {"error": "boom", "error_type": "Generation Error"}

    async def marker(self, request: Received, answer: Answer) -> None:
        details = self._details("invalid flag")
        if self.streams(request):
            await answer.begin_stream()
            await self._token(answer, 12, "", "", details)
            await answer.raw(NO_END)
        else:
            await answer.json({"generated_text": "half an ans", "details": details})

    async def _token(
        self,
        answer: Answer,
        token: int,
        text: str,
        whole: str | None = None,
        details: Json | None = None,
    ) -> None:
        one = {"id": [token], "text": text, "logprob": None, "special": None}
        await answer.event({"token": one, "generated_text": whole, "details": details})

    def _details(self, word: str) -> Json:
        return {"finish_reason": word, "generated_tokens": 2, "prompt_tokens": 7, "seed": 7}


class Triton:
    """Raw-tensor models: `infer` in one piece, `generate_stream` a token an event, with no end."""

    def streams(self, request: Received) -> bool:
        return request.path.endswith("_stream")

    async def answers(self, request: Received, answer: Answer) -> None:
        if self.streams(request):
            await self.first(answer)
            await self.rest(answer)
            return
        assert {one["name"] for one in _inputs(request)} >= {"input_ids", "request_output_len"}
        outputs = [
            _output("output_ids", [1, 1, 2], [11, 12]),
            _output("sequence_length", [1, 1], [2]),
        ]
        await answer.json({"model_name": "m", "model_version": "1", "outputs": outputs})

    async def first(self, answer: Answer) -> None:
        await answer.begin_stream()
        await self._token(answer, 11)

    async def continues(self, request: Received, answer: Answer) -> None:
        assert cast("list[int]", request.json["input_ids"])[:4] == [5, 6, 7, 11]
        await answer.begin_stream()
        await self.rest(answer)

    async def more(self, answer: Answer) -> None:
        await self._token(answer, 13)

    async def rest(self, answer: Answer) -> None:
        await self._token(answer, 12)
        await answer.raw(NO_END)

    async def before(self, answer: Answer) -> None:
        await answer.begin_stream()

    def broken(self) -> bytes:
        return b'data: {"model_name":"m","output_i\n\n'

    def endless(self) -> Json:
        return {"model_name": "m", "model_version": "1", "outputs": []}

    def error(self, more: Json) -> Json:
        return {"error": "boom"}

    async def marker(self, request: Received, answer: Answer) -> None:
        if self.streams(request):
            await answer.begin_stream()
            await answer.event({"error": "in ensemble, failed to run"})
            await answer.raw(NO_END)
        else:
            await answer.json({"error": "in ensemble, failed to run"})

    async def _token(self, answer: Answer, token: int) -> None:
        await answer.event({"model_name": "m", "model_version": "1", "output_ids": token})


def _inputs(request: Received) -> list[dict[str, object]]:
    return cast("list[dict[str, object]]", json.loads(request.body)["inputs"])


def _output(name: str, shape: list[int], data: list[int]) -> Json:
    return {"name": name, "datatype": "INT32", "shape": shape, "data": data}


OPENAI, MINDIE, MINDIE_TEXT, TRITON = OpenAI(), MindIE(), MindIEText(), Triton()


def dialect_of(request: Received) -> Dialect:
    """By the end of its path."""
    if request.path.endswith("/infer_token"):
        return MINDIE
    if "/v2/models/" in request.path:
        return TRITON
    return MINDIE_TEXT if "/generate" in request.path else OPENAI
