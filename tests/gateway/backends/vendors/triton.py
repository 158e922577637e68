"""TensorRT-LLM's models on a Triton server as vendors' wires: bare text, or the ids of tokens."""

from pathlib import Path
from typing import cast

from tokenizers import Tokenizer

from tests.gateway.backends.vendors.dialect import (
    FAULT,
    USAGE,
    Json,
    ReceivedRequest,
    Said,
    Streamed,
    Turn,
    dicts,
    sse,
)

TOKENIZER = Path(__file__).parents[4] / "local_engine" / "bundled" / "tiny-chat" / "tokenizer.json"

_tokenizer = Tokenizer.from_file(str(TOKENIZER))


class TritonDialect:
    """`ensemble`: the end of the body is the end of the answer, and counts are those of a piece."""

    kind = "text/event-stream; charset=utf-8"

    def whole(self, said: Said) -> Json:
        return self._event(said.whole_text, USAGE[1])

    def streamed(self, said: Said) -> Streamed:
        counts = [1] * (len(said.text) - 1)
        counts.append(USAGE[1] - len(counts))
        pieces = zip(said.text, counts, strict=True)
        return Streamed(content=[sse(self._event(text, count)) for text, count in pieces])

    def received(self, body: Json) -> ReceivedRequest:
        return ReceivedRequest(turns=(Turn(role="user", text=str(body["text_input"])),))

    def error(self, status: int, message: str) -> Json:
        return {"error": message}

    def failure(self) -> bytes:
        return sse({"error": FAULT})

    def failed(self) -> Json:
        return {"error": FAULT}

    def _event(self, text: str, count: int) -> Json:
        counts = {"num_input_tokens": USAGE[0], "num_output_tokens": count}
        return {"model_name": "ensemble", "text_output": text, **counts}


class LlmApiDialect(TritonDialect):
    """Each event has the text so far; the last says why it is the last; nothing is counted."""

    def whole(self, said: Said) -> Json:
        return {"model_name": "llmapi", "text_output": said.whole_text, "finish_reason": "stop"}

    def streamed(self, said: Said) -> Streamed:
        so_far = ["".join(said.text[: place + 1]) for place in range(len(said.text))]
        pieces = [{"text_output": text, "finish_reason": "None"} for text in so_far]
        return Streamed(
            content=[sse({"model_name": "llmapi", **one}) for one in pieces],
            end=[sse(self.whole(said))],
        )


class DecoupledDialect(TritonDialect):
    """A decoupled tensor model: ids as flat lists."""

    def whole(self, said: Said) -> Json:
        return _ids_event([one for text in said.text for one in _ids(text)])

    def streamed(self, said: Said) -> Streamed:
        return Streamed(content=[sse(_ids_event(_ids(text))) for text in said.text])

    def received(self, body: Json) -> ReceivedRequest:
        return ReceivedRequest(turns=(Turn(role="user", text=_text(body["input_ids"])),))


class TensorDialect(DecoupledDialect):
    """A tensor model that is not decoupled: tensors in and out, and no streams."""

    def whole(self, said: Said) -> Json:
        ids = [one for text in said.text for one in _ids(text)]
        tensors = {"output_ids": ([1, 1, len(ids)], ids), "sequence_length": ([1, 1], [len(ids)])}
        outputs = [
            {"name": name, "datatype": "INT32", "shape": shape, "data": data}
            for name, (shape, data) in tensors.items()
        ]
        return {"model_name": "tensorrt_llm", "model_version": "1", "outputs": outputs}

    def received(self, body: Json) -> ReceivedRequest:
        inputs = {str(one["name"]): one["data"] for one in dicts(body["inputs"])}
        return ReceivedRequest(turns=(Turn(role="user", text=_text(inputs["input_ids"])),))


def _ids(text: str) -> list[int]:
    return _tokenizer.encode(text, add_special_tokens=False).ids


def _text(ids: object) -> str:
    return _tokenizer.decode(cast("list[int]", ids))


def _ids_event(ids: list[int]) -> Json:
    return {"model_name": "m", "output_ids": ids, "sequence_length": len(ids)}
