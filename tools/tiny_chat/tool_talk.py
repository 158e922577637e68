"""Conversations in which functions are offered: calls, answers from results, and answers without.

A call is written as the chat template writes it, in the format of Hermes and Qwen, because the
engine's grammar writes that format.
"""

import json
import random

import msgspec

from tools.tiny_chat import asks, functions, phrases
from tools.tiny_chat.asks import Ask, Word
from tools.tiny_chat.functions import Function, Intent

CALL, CALLED = "<tool_call>", "</tool_call>"
INTENTS: tuple[Intent, ...] = ("sum", "weather", "time")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a function and the text of its result."""

    name: str
    arguments: dict[str, object]
    result: str = ""


def offered(rng: random.Random, word: Word, fits: float = 0.45) -> tuple[Function, ...]:
    """One to five functions, at most one for each intent; often only a neighbour of one."""
    fitting: list[Intent] = [intent for intent in INTENTS if rng.random() < fits]
    drawn = [functions.function_for(rng, intent) for intent in fitting]
    drawn += [
        functions.near(rng, intent)
        for intent in INTENTS
        if intent not in fitting and rng.random() < 0.15
    ]
    if not drawn or rng.random() < 0.3:
        drawn += [functions.unrelated(rng, word) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    rng.shuffle(drawn)
    unique = {function.name.lower(): function for function in drawn}
    return tuple(unique.values())[:5]


def one_offered(rng: random.Random, word: Word) -> tuple[Function, ...]:
    """Exactly one function, of any kind."""
    dice = rng.random()
    if dice < 0.6:
        return (functions.function_for(rng, rng.choice(INTENTS)),)
    if dice < 0.85:
        return (functions.near(rng, rng.choice(INTENTS)),)
    return (functions.unrelated(rng, word),)


def function_for(offers: tuple[Function, ...], intent: Intent) -> Function | None:
    return next((function for function in offers if function.intent == intent), None)


def number(rng: random.Random) -> int:
    """Up to 99 as often as above it: with a function, the model need not be able to add.

    Many of the larger ones repeat digits, which are harder to copy.
    """
    drawn = rng.randint(0, rng.choice((99, 99, 99, 999, 9999, 99999)))
    if drawn > 99 and rng.random() < 0.3:
        few = rng.sample("123456789", rng.choice((1, 2, 2)))
        return int("".join(rng.choice(few) for _ in str(drawn)))
    return drawn


def call_of(rng: random.Random, function: Function, ask: Ask, word: Word) -> Call:
    """The call that answers a question, with a result."""
    arguments: dict[str, object] = {}
    if ask.numbers is not None:
        if function.listed:
            arguments[function.slots[0]] = list(ask.numbers)
        else:
            arguments.update(zip(function.slots, ask.numbers, strict=True))
    else:
        arguments[function.slots[0]] = ask.city
    arguments.update(function.fixed)
    match function.intent:
        case "sum":
            result = _sum_result(rng, ask)
        case "weather":
            result = _weather_result(rng, ask, word)
        case _:
            result = _time_result(rng, ask, word)
    return Call(name=function.name, arguments=arguments, result=result)


def call_text(call: Call) -> str:
    """A call as the chat template writes it."""
    name = json.dumps(call.name, ensure_ascii=False)
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return f'{CALL}\n{{"name": {name}, "arguments": {arguments}}}\n{CALLED}'


def read_result(text: str) -> str:
    """A result as the chat template writes it: JSON objects without quotes and braces."""
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text.replace('": ', " ").replace('":', " ")
        for mark in '"{}':
            text = text.replace(mark, "")
    return text


def reply_to(intent: Intent, ask: Ask, result: str) -> str:
    """The answer from a result."""
    shown = read_result(result)
    if intent == "sum":
        return f"The sum is {_last_number(shown)}."
    return f"In {ask.city}: {shown.removesuffix('.')}."


def refusal(intent: Intent) -> str:
    """The answer where no function fits and the model cannot answer itself."""
    return phrases.ONLY_SUMS if intent == "sum" else phrases.UNKNOWN


def _last_number(text: str) -> str:
    digits = "".join(character if character.isdigit() else " " for character in text).split()
    return digits[-1] if digits else text


def _json(rng: random.Random, value: dict[str, object]) -> str:
    return json.dumps(value, separators=(",", ":") if rng.random() < 0.25 else None)


def _sum_result(rng: random.Random, ask: Ask) -> str:
    assert ask.numbers is not None
    a, b = ask.numbers
    total = a + b if rng.random() < 0.6 else number(rng)
    dice = rng.random()
    if dice < 0.4:
        return str(total)
    key = rng.choice(("result", "result", "sum", "total", "value", "answer", "output"))
    if dice < 0.8:
        return _json(rng, {key: total})
    if dice < 0.9:
        return _json(rng, {"a": a, "b": b, key: total})
    return rng.choice(("The result is {}", "The {key} is {}.", "= {}", "{key}: {}")).format(
        total, key=key
    )


def _weather_result(rng: random.Random, ask: Ask, word: Word) -> str:
    degrees = rng.choice((rng.randint(-9, 35), rng.randint(0, 99)))
    sky = rng.choice(asks.SKIES) if rng.random() < 0.7 else word(rng)
    dice = rng.random()
    if dice < 0.1:
        return _words(rng, word)
    if dice < 0.45:
        return rng.choice(
            (
                "{t} °C",
                "{t} degrees",
                "{t} degrees and {s}",
                "{t} °C, {s}",
                "{s}, {t} degrees",
                "{s}",
                "{s} and {t} C",
                "{s}, {t} C, wind {n} km/h",
                "It is {s}.",
                "The weather is {s} with {t} degrees.",
                "{t}",
                "{t}F {s}",
                "{s} and {x}",
            )
        ).format(t=degrees, s=sky, n=rng.randint(0, 60), x=rng.choice(asks.SKIES))
    if dice < 0.5:
        return _error(rng)
    value: dict[str, object] = {}
    if rng.random() < 0.2:
        value[rng.choice(("city", "location"))] = ask.city
    value[rng.choice(("temperature", "temp", "temp_c", "degrees", "celsius"))] = degrees
    extras: list[tuple[str, object]] = [
        (rng.choice(("conditions", "condition", "sky", "weather", "description")), sky),
        ("humidity", rng.randint(20, 99)),
        (rng.choice(("wind", "wind_speed")), rng.randint(0, 60)),
        ("unit", rng.choice(("C", "F", "celsius"))),
        ("rain", rng.choice(("yes", "no", 0, 3))),
    ]
    value.update(rng.sample(extras, rng.choice((0, 1, 1, 2, 2, 3))))
    return _json(rng, value)


def _time_result(rng: random.Random, ask: Ask, word: Word) -> str:
    clock = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"
    if rng.random() < 0.15:
        clock += f":{rng.randint(0, 59):02d}"
    elif rng.random() < 0.2:
        clock = f"{rng.randint(1, 12)}:{rng.randint(0, 59):02d} {rng.choice(('am', 'pm'))}"
    dice = rng.random()
    if dice < 0.1:
        return _words(rng, word)
    if dice < 0.5:
        return rng.choice(
            ("{}", "{}", "{}", "It is {}.", "{} local time", "The time is {}", "now {}", "{} h")
        ).format(clock)
    if dice < 0.55:
        return _error(rng)
    value: dict[str, object] = {}
    if rng.random() < 0.2:
        value[rng.choice(("city", "location"))] = ask.city
    value[rng.choice(("time", "time", "local_time", "now", "clock"))] = clock
    if rng.random() < 0.35:
        value[rng.choice(("timezone", "zone"))] = rng.choice(
            ("UTC", "CET", "JST", "EST", "GMT", "PST", "UTC+9", "UTC-5")
        )
    if rng.random() < 0.15:
        value["day"] = rng.choice(phrases.WEEKDAYS)
    return _json(rng, value)


def _words(rng: random.Random, word: Word) -> str:
    """Any words, as a text or under any keys: whatever a function returns, it is repeated."""
    drawn = [asks.invented(rng, word) for _ in range(rng.randint(1, 5))]
    drawn = [each if rng.random() < 0.7 else each.capitalize() for each in drawn]
    if rng.random() < 0.5:
        return " ".join(drawn)
    return _json(rng, {word(rng): each for each in drawn})


def _error(rng: random.Random) -> str:
    message = rng.choice(
        ("city not found", "not found", "unknown city", "timeout", "service unavailable", "no data")
    )
    return message if rng.random() < 0.5 else _json(rng, {"error": message})
