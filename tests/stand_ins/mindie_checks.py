"""Request checks of a MindIE server: ranges, roles, names, exactly one input."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from msgspec import Struct

Json = Mapping[str, object]

LARGEST_ID = 1024 * 1024
TOOL_NAME = re.compile(r"[a-zA-Z0-9_\u4e00-\u9fa5-]{1,64}")
ROLES = {"system", "user", "assistant", "tool"}


class Refusal(Struct, frozen=True, kw_only=True):
    """In MindIE, status and kind belong together: see `refused`."""

    status: int
    error: str
    kind: str


def invalid(error: str) -> Refusal:
    return Refusal(status=422, error=error, kind="Input Validation Error")


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _between(low: float, high: float, *, open_low: bool = True) -> Callable[[object], bool]:
    def fits(value: object) -> bool:
        if not _number(value):
            return False
        number = cast("float", value)
        return (low < number if open_low else low <= number) and number <= high

    return fits


def _count(low: int, high: int) -> Callable[[object], bool]:
    return lambda value: _whole(value) and low <= cast("int", value) <= high


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _stops(value: object) -> bool:
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    return len(listed) <= 1024 and all(
        isinstance(one, str) and 1 <= len(one) <= 1024 for one in listed
    )


def _text(value: object) -> bool:
    return isinstance(value, str)


LARGE = 2**31 - 1
_COMMON: Mapping[str, Callable[[object], bool]] = {
    "temperature": _between(0, 1e30),
    "top_k": _count(1, LARGE),
    "top_p": lambda value: _number(value) and 0 < cast("float", value) < 1,
    "typical_p": _between(0, 1),
    "do_sample": _flag,
    "seed": _count(0, 2**63 - 1),
    "repetition_penalty": _between(0, 1e30),
    "watermark": _flag,
    "max_new_tokens": _count(1, LARGE),
    "details": _flag,
}
TOKEN_PARAMETERS = {**_COMMON, "priority": _count(1, 5), "timeout": _count(1, 65535)}
TEXT_PARAMETERS = {**_COMMON, "stop": _stops, "adapter_id": _text}
CHAT_PARAMETERS: Mapping[str, Callable[[object], bool]] = {
    "temperature": _between(0, 1e30, open_low=False),
    "top_k": lambda value: value == -1 or _count(1, LARGE)(value),
    "top_p": _between(0, 1),
    "seed": _count(0, 2**63 - 1),
    "repetition_penalty": _between(0, 2),
    "presence_penalty": _between(-2, 2, open_low=False),
    "frequency_penalty": _between(-2, 2, open_low=False),
    "max_tokens": _count(1, LARGE),
    "n": _count(1, 128),
    "best_of": _count(1, 128),
    "top_logprobs": _count(0, 20),
    "logprobs": _flag,
    "ignore_eos": _flag,
    "skip_special_tokens": _flag,
    "stream": _flag,
    "stop": _stops,
}


def check_tokens(body: Json) -> Refusal | None:
    """Check a body of /infer_token."""
    if "inputs" in body and "input_id" in body:
        return invalid("Input conflict.")
    if "input_id" not in body and "inputs" not in body:
        return invalid("Not found inputs.")
    if "input_id" in body:
        ids = body["input_id"]
        if not isinstance(ids, list):
            return invalid("Parameter input_id must be an array")
        if not ids:
            return invalid("Inputs token length must be in (0, 1000000], but got 0")
        if not all(_count(0, LARGEST_ID)(one) for one in cast("list[object]", ids)):
            return invalid("Data element in param input_id is invalid")
    if not isinstance(body.get("stream", False), bool):
        return invalid("stream must be boolean type.")
    return _parameters(body, TOKEN_PARAMETERS)


def check_text(body: Json) -> Refusal | None:
    """Check a body of /generate or /generate_stream, in TGI's dialect."""
    text = body.get("inputs")
    if not isinstance(text, str):
        return invalid("Request should contain 'inputs' and the type should be string.")
    if not text:
        return invalid("Inputs length must be in (0, 4194304], but got 0")
    return _parameters(body, TEXT_PARAMETERS)


def check_chat(body: Json, model: str) -> Refusal | None:
    """Check a body of /v1/chat/completions."""
    if body.get("model") != model:
        return Refusal(status=404, error="Model not found.", kind="NotFoundError")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return invalid("Request param messages not arr or arr is empty")
    for one in cast("list[Json]", messages):
        problem = _message(one, tools=bool(body.get("tools")))
        if problem:
            return invalid(problem)
    for tool in cast("Sequence[Json]", body.get("tools") or ()):
        name = cast("Json", tool["function"])["name"]
        if not TOOL_NAME.fullmatch(str(name)):
            return invalid(f"unexpected function name: {name}")
    wrong = _ranges(body, CHAT_PARAMETERS)
    if wrong is None and cast("int", body.get("n") or 1) > 1 and not body.get("temperature"):
        return invalid("best_of/n can not greater than 1 when temperature is 0 or not set")
    return wrong


def _parameters(body: Json, allowed: Mapping[str, Callable[[object], bool]]) -> Refusal | None:
    parameters = body.get("parameters", {})
    if not isinstance(parameters, dict):
        return invalid("parameters must be object type.")
    return _ranges(cast("Json", parameters), allowed)


def _ranges(values: Json, allowed: Mapping[str, Callable[[object], bool]]) -> Refusal | None:
    """Check parameters; null counts as absent, unknown names are ignored."""
    for name, fits in allowed.items():
        value = values.get(name)
        if value is not None and not fits(value):
            return invalid(f"Parameter {name} is out of its range, got {value}.")
    return None


def _message(one: Json, *, tools: bool) -> str:
    role, content = one.get("role"), one.get("content")
    if role not in ROLES:
        return "Request param contains role must be system, assistant, user or tool"
    if role == "tool" and not one.get("tool_call_id"):
        return "Request param tool_call_id len should not be 0 while role is tool"
    if role == "assistant" and one.get("tool_calls"):
        return ""
    strings_only = tools or role == "assistant"
    if isinstance(content, list) and not strings_only:
        return "" if content else "Inputs arr is empty"
    if not isinstance(content, str) or (not content and role != "tool"):
        return "Request param content should not be empty"
    return ""
