"""What Mistral refuses, by the validator that it publishes with its tokenizers."""

import re
from typing import Final

from tests.oracle.checks.chat import NAME, calls_of, functions, messages_of
from tests.oracle.reading import Faults, inner, number, outside, text
from tests.oracle.sent import Sent

_ID: Final = re.compile(r"[a-zA-Z0-9]{9}")
_AFTER: Final = {
    "system": {"user", "assistant", "system"},
    "user": {"assistant", "system", "user"},
    "assistant": {"assistant", "user", "tool"},
    "tool": {"assistant", "tool"},
}


def call_ids_have_nine_letters(sent: Sent) -> Faults:
    for at, message in messages_of(sent.body):
        found = [
            (f"{at}.tool_calls.{place}.id", call.get("id"))
            for place, call in enumerate(calls_of(message))
        ]
        if message.get("role") == "tool":
            found.append((f"{at}.tool_call_id", message.get("tool_call_id")))
        for place, id in found:
            if not _ID.fullmatch(text(id)):
                yield place, f"is {id!r}"


def roles_follow_each_other(sent: Sent) -> Faults:
    before = ""
    for at, message in messages_of(sent.body):
        role = text(message.get("role"))
        if before and role not in _AFTER.get(before, ()):
            yield f"{at}.role", f"is {role}, after {before}"
        before = role


def the_last_role_asks(sent: Sent) -> Faults:
    found = messages_of(sent.body)
    if found and len(found) > 1:
        at, last = found[-1]
        if last.get("role") == "assistant" and last.get("prefix") is not True:
            yield f"{at}.role", "is assistant, without prefix"
        if last.get("role") == "system":
            yield f"{at}.role", "is system"


def calls_and_results_are_as_many(sent: Sent) -> Faults:
    expected = 0
    for at, message in messages_of(sent.body):
        if message.get("role") == "tool":
            expected -= 1
        elif message.get("role") == "assistant":
            if expected:
                yield at, f"comes while {expected} results are missing"
            expected = len(calls_of(message))
    if expected:
        yield "messages", f"end while {expected} results are missing"


def answers_say_something(sent: Sent) -> Faults:
    for at, message in messages_of(sent.body):
        said = message.get("content") or calls_of(message)
        if message.get("role") == "assistant" and not said:
            yield at, "has neither content nor calls"


def function_names_have_an_alphabet(sent: Sent) -> Faults:
    found = [(f"{at}.name", function.get("name")) for at, function in functions(sent.body)]
    for at, message in messages_of(sent.body):
        if message.get("role") == "tool" and message.get("name") is not None:
            found.append((f"{at}.name", message["name"]))
        for place, call in enumerate(calls_of(message)):
            name = inner(call, "function").get("name")
            found.append((f"{at}.tool_calls.{place}.function.name", name))
    for at, name in found:
        if not NAME.fullmatch(text(name)):
            yield at, f"is {name!r}"


def sampling_is_in_range(sent: Sent) -> Faults:
    yield from outside(sent.body, "temperature", 0, 1.5)
    yield from outside(sent.body, "top_p", 0, 1)
    yield from outside(sent.body, "max_tokens", 0, 2**31)
    yield from outside(sent.body, "presence_penalty", -2, 2)
    yield from outside(sent.body, "frequency_penalty", -2, 2)
    if number(sent.body.get("temperature")) == 0 and (number(sent.body.get("n")) or 1) > 1:
        yield "n", "is over 1, with temperature 0"
