"""Measures how the bundled model calls functions, under the engine's grammar of calls.

Wordings and cities here are not in the corpus, and nor are most of the functions.
"""

import random
from collections.abc import Sequence

import msgspec
from transformers.models.llama.modeling_llama import LlamaForCausalLM
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

from tools.tiny_chat import asks, corpus, documents, functions, guided, held_out, layout, tool_talk
from tools.tiny_chat.asks import Ask
from tools.tiny_chat.corpus import word
from tools.tiny_chat.functions import Function, Intent
from tools.tiny_chat.layout import Exchange
from tools.tiny_chat.tool_talk import CALL, CALLED, Call

_AT_ONCE = 96
"""Prompts of similar lengths in one batch: more cost their padding more than they save."""

_UNITS: dict[str, object] = {"unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}}


def _numbers(name: str, description: str, *keys: str, kind: str = "number") -> Function:
    properties: dict[str, object] = {key: {"type": kind} for key in keys}
    return Function(
        name=name,
        intent="sum",
        description=description,
        parameters={"type": "object", "properties": properties, "required": list(keys)},
        slots=keys,
    )


def _place(
    intent: Intent, name: str, description: str, key: str, extra: dict[str, object] | None = None
) -> Function:
    properties: dict[str, object] = {key: {"type": "string"}, **(extra or {})}
    return Function(
        name=name,
        intent=intent,
        description=description,
        parameters={"type": "object", "properties": properties, "required": [key]},
        slots=(key,),
    )


UNSEEN_FUNCTIONS: dict[Intent, tuple[Function, ...]] = {
    "sum": (
        _numbers("add_values", "Adds up two values and returns the total.", "p", "q"),
        _numbers("calculate_addition", "Perform the addition of two numbers.", "a", "b"),
        _numbers("sumTwo", "Calculate the sum.", "augend", "addend"),
        _numbers("add", "Add two numbers", "a", "b", kind="integer"),
        _numbers("math_plus", "Returns x plus y.", "x", "y"),
    ),
    "weather": (
        _place("weather", "weather_info", "Find out the weather in a city.", "city"),
        _place("weather", "getWeatherByCity", "Weather for the given city", "cityName"),
        _place("weather", "query_weather", "Query the present weather at a place.", "place"),
        _place(
            "weather",
            "get_current_weather",
            "Get the current weather in a given location",
            "location",
            _UNITS,
        ),
        _place("weather", "get_weather", "Get weather", "city"),
    ),
    "time": (
        _place("time", "get_current_time", "Get current time for a given city", "city"),
        _place("time", "time_of_city", "The time of day in a city.", "city"),
        _place("time", "show_local_time", "Show the local time at a location.", "location"),
        _place("time", "whatTimeIsIt", "Tells what time it is in a town", "town"),
        _place("time", "get_time", "Get time", "city"),
    ),
}


class ToolProbe(msgspec.Struct, frozen=True, kw_only=True):
    """A rendered prompt, the functions offered, and what is right.

    call:  the right call; `None` if the right answer calls nothing.
    reply: the right text where nothing is called; "" accepts any.
    """

    prompt: str
    offers: tuple[Function, ...]
    call: Call | None = None
    reply: str = ""

    def right(self, answer: str) -> bool:
        """Whether a complete answer is right: the same call, or no call and the same text."""
        if self.call is None:
            return CALL not in answer and (not self.reply or answer == self.reply + layout.END)
        return called(answer) == (self.call.name, self.call.arguments)


class _Written(msgspec.Struct):
    name: str
    arguments: dict[str, object]


def called(answer: str) -> tuple[str, dict[str, object]] | None:
    """The one call that an answer consists of, or `None`."""
    text = answer.removesuffix(layout.END)
    if not (text.startswith(CALL) and text.endswith(CALLED)) or text.count(CALL) != 1:
        return None
    read = msgspec.json.decode(text[len(CALL) : -len(CALLED)], type=_Written)
    return read.name, read.arguments


def accuracy(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, probes: Sequence[ToolProbe]
) -> float:
    return sum(right(model, tokenizer, probes)) / len(probes)


def right(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, probes: Sequence[ToolProbe]
) -> list[bool]:
    """Which probes are answered right, greedily and under the grammar."""
    order = sorted(range(len(probes)), key=lambda place: len(probes[place].prompt))
    found = [False] * len(probes)
    for start in range(0, len(order), _AT_ONCE):
        places = order[start : start + _AT_ONCE]
        some = [probes[place] for place in places]
        answers = guided.greedy_replies(
            model, tokenizer, [probe.prompt for probe in some], [probe.offers for probe in some]
        )
        for place, probe, answer in zip(places, some, answers, strict=True):
            found[place] = probe.right(answer)
    return found


def probes(seed: int, count: int) -> dict[str, list[ToolProbe]]:
    """`count` probes for each ability."""
    rng = random.Random(seed)
    drawn: dict[str, list[ToolProbe]] = {}
    for intent in tool_talk.INTENTS:
        drawn[f"call: {intent}, unseen wordings"] = [
            _call_probe(rng, intent, unseen_ask(rng, intent), known=False) for _ in range(count)
        ]
        drawn[f"call: {intent}, wordings of the corpus"] = [
            _call_probe(rng, intent, _known_ask(rng, intent), known=True) for _ in range(count)
        ]
    for intent in tool_talk.INTENTS:
        drawn[f"answer from a result: {intent}"] = [_result(rng, intent) for _ in range(count)]
    drawn["no call: another question"] = [_other(rng) for _ in range(count)]
    drawn["no call: another question about a city, unseen wordings"] = [
        _probe(rng, Exchange(ask=rng.choice(held_out.UNSEEN_OTHERS).format(c=_city(rng)), reply=""))
        for _ in range(count)
    ]
    drawn["no call: only another function is offered"] = [_neighbour(rng) for _ in range(count)]
    drawn["no call: own sum, only another function is offered"] = [
        _own_sum(rng) for _ in range(count)
    ]
    drawn["no call: no function is offered"] = [
        ToolProbe(prompt=prompt(unseen_ask(rng, rng.choice(tool_talk.INTENTS)).text, ()), offers=())
        for _ in range(count)
    ]
    rng = random.Random(f"fresh {seed}")
    for intent in tool_talk.INTENTS:
        drawn[f"call: {intent}, fresh wordings"] = [
            _call_probe(rng, intent, fresh_ask(rng, intent), known=False) for _ in range(count)
        ]
    rng = random.Random(f"newest {seed}")
    for intent in tool_talk.INTENTS:
        drawn[f"call: {intent}, newest wordings"] = [
            _call_probe(rng, intent, newest_ask(rng, intent), known=False) for _ in range(count)
        ]
    return drawn


def unseen_ask(rng: random.Random, intent: Intent) -> Ask:
    return _filled(rng, intent, held_out.UNSEEN, held_out.UNSEEN_CITIES)


def fresh_ask(rng: random.Random, intent: Intent) -> Ask:
    return _filled(rng, intent, held_out.FRESH, held_out.FRESH_CITIES)


def newest_ask(rng: random.Random, intent: Intent) -> Ask:
    return _filled(rng, intent, held_out.NEWEST, held_out.NEWEST_CITIES)


def _filled(
    rng: random.Random,
    intent: Intent,
    wordings: dict[Intent, tuple[str, ...]],
    cities: tuple[str, ...],
) -> Ask:
    wording = rng.choice(wordings[intent])
    if intent == "sum":
        a, b = tool_talk.number(rng), tool_talk.number(rng)
        return Ask(text=wording.format(a=a, b=b), numbers=(a, b))
    city = rng.choice(cities)
    return Ask(text=wording.format(c=city), city=city)


def _city(rng: random.Random) -> str:
    return rng.choice(held_out.UNSEEN_CITIES)


def _known_ask(rng: random.Random, intent: Intent) -> Ask:
    if intent == "sum":
        return asks.sum_ask(rng, word, tool_talk.number(rng), tool_talk.number(rng))
    return asks.city_ask(rng, intent, word, asks.city_name(rng, word))


def _offers(rng: random.Random, intent: Intent, *, known: bool) -> tuple[Function, ...]:
    """A function for the intent, alone or among up to three others."""
    fitting = functions.function_for(rng, intent) if known else rng.choice(UNSEEN_FUNCTIONS[intent])
    others = [
        each
        for each in tool_talk.offered(rng, word)
        if each.intent != intent and each.name != fitting.name
    ]
    offers = [fitting, *others[: rng.choice((0, 0, 1, 2, 3))]]
    rng.shuffle(offers)
    return tuple(offers)


def _call_probe(rng: random.Random, intent: Intent, ask: Ask, *, known: bool) -> ToolProbe:
    offers = _offers(rng, intent, known=known)
    function = tool_talk.function_for(offers, intent)
    assert function is not None
    call = tool_talk.call_of(rng, function, ask, word)
    return ToolProbe(prompt=prompt(ask.text, offers), offers=offers, call=call)


def prompt(ask: str, offers: tuple[Function, ...]) -> str:
    """A question as the first of a conversation, up to the model's turn."""
    head, _ = layout.conversation((Exchange(ask=ask, reply=""),), None, offers)
    return head.text


def _result(rng: random.Random, intent: Intent) -> ToolProbe:
    offers = _offers(rng, intent, known=False)
    ask = unseen_ask(rng, intent)
    exchange = documents.answered(rng, ask, intent, tool_talk.function_for(offers, intent))
    *head, answer = layout.conversation((exchange,), None, offers)
    return ToolProbe(
        prompt="".join(segment.text for segment in head),
        offers=offers,
        reply=answer.text.removesuffix(layout.END),
    )


def _probe(rng: random.Random, exchange: Exchange) -> ToolProbe:
    offers = _offers(rng, rng.choice(tool_talk.INTENTS), known=False)
    return ToolProbe(prompt=prompt(exchange.ask, offers), offers=offers)


def _other(rng: random.Random) -> ToolProbe:
    """A question of the model's own skills, but no sum."""
    skill = rng.choice([each for each in corpus.SKILLS if each is not corpus.sum_of])
    while corpus.is_large_sum(drawn := skill(rng)):
        pass
    return _probe(rng, Exchange(ask=corpus.restyle(rng, drawn.ask), reply=drawn.reply))


def _neighbour(rng: random.Random) -> ToolProbe:
    """Weather or time of a city where only a function for another purpose is offered."""
    intent = rng.choice(("weather", "time"))
    dice = rng.random()
    if dice < 0.6:
        offer = rng.choice(UNSEEN_FUNCTIONS["time" if intent == "weather" else "weather"])
    elif dice < 0.9:
        offer = functions.near(rng, intent)
    else:
        offer = rng.choice(UNSEEN_FUNCTIONS["sum"])
    return ToolProbe(prompt=prompt(unseen_ask(rng, intent).text, (offer,)), offers=(offer,))


def _own_sum(rng: random.Random) -> ToolProbe:
    a, b = rng.choice(corpus.pairs(held=True))
    intent = rng.choice(("weather", "time", "near"))
    offer = (
        functions.near(rng, "sum")
        if intent == "near"
        else rng.choice(UNSEEN_FUNCTIONS["weather" if intent == "weather" else "time"])
    )
    ask = corpus.restyle(rng, corpus.sum_exchange(rng, a, b).ask)
    reply = corpus.sum_reply(a, b)
    return ToolProbe(prompt=prompt(ask, (offer,)), offers=(offer,), reply=reply)
