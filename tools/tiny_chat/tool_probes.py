"""Measures how the bundled model calls functions, under the engine's grammar of calls.

Wordings and cities here are not in the corpus, and nor are most of the functions.
"""

import random
from collections.abc import Sequence

import msgspec
from transformers.models.llama.modeling_llama import LlamaForCausalLM
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

from tools.tiny_chat import asks, corpus, documents, functions, guided, layout, tool_talk
from tools.tiny_chat.asks import Ask
from tools.tiny_chat.corpus import word
from tools.tiny_chat.functions import Function, Intent
from tools.tiny_chat.layout import Exchange
from tools.tiny_chat.tool_talk import CALL, CALLED, Call

UNSEEN: dict[Intent, tuple[str, ...]] = {
    "sum": (
        "Could you kindly figure out {a} + {b}?",
        "My homework says {a}+{b}. What is the answer?",
        "Hey buddy, {a} plus {b} is how much?",
        "Alice has {a} marbles and Bob has {b} marbles. How many marbles do they have together?",
        "Give me {a} + {b} as a number.",
        "I wonder what {a} plus {b} might be.",
        "Take {a}, then add {b}.",
        "{a} + {b} equals what number?",
        "Use the calculator: {a} + {b}",
        "What would {a} plus {b} be?",
        "Hi! Can you help me add {a} and {b}?",
        "{a} + {b} = what?",
        "What do I get for {a} plus {b}?",
        "I need the result of {a}+{b} quickly",
        "Sum up the values {a} and {b} for the invoice",
        "Let me know the total of {a} and {b}",
        "I've got {a} dollars in one account and {b} in another, how much is that overall?",
        "Our team scored {a} points and then {b} points. What is the total score?",
        "Math question: {a} plus {b}",
        "If one box holds {a} pens and another holds {b}, how many pens are there in total?",
    ),
    "weather": (
        "Could you look at the weather for {c} please?",
        "I'm visiting {c} tomorrow, what will the weather be?",
        "Tell me about the weather in {c}.",
        "Is the weather nice in {c} today?",
        "Hey, what's today's forecast in {c}?",
        "How many degrees does it have in {c}?",
        "Do they have rain in {c} at present?",
        "Give me a quick weather update for {c}",
        "Weather conditions {c} please",
        "Can you pull up the temperature in {c}?",
        "Is a storm coming to {c}?",
        "Should I wear a jacket in {c} today?",
        "I want to go for a walk in {c}. Is it raining?",
        "Please find the current temperature for {c}.",
        "What sort of weather can I expect in {c} this weekend?",
        "How's the weather over there in {c}?",
        "Weather check: {c}",
        "is it sunny out in {c} rn",
        "What's it like outside in {c} right now?",
        "Will I need my umbrella in {c} later?",
    ),
    "time": (
        "What's the current time over in {c}?",
        "Could you please tell me what time it is in {c} right now?",
        "Give me the local time for {c}.",
        "I need to call a client in {c}, what time is it there?",
        "How late is it in {c} at present?",
        "time check for {c}",
        "What is the hour in {c}?",
        "Is it past midnight in {c}?",
        "Do you happen to have the time for {c}?",
        "Show the clock for {c}",
        "Hey, what time do we have in {c}?",
        "Please look up the time in {c}",
        "Can you check what time it currently is in {c}?",
        "What time would that be in {c}?",
        "tell me the exact time in {c}, please",
        "The time in {c}, please.",
        "My sister moved to {c}. What's the time there?",
        "right now in {c}, what's the time?",
        "{c} - what time is it?",
        "current local time of {c}?",
    ),
}
UNSEEN_OTHERS = (
    "Who founded {c}?",
    "What is the best museum in {c}?",
    "Plan a weekend in {c} for me",
    "How expensive is {c}?",
    "Which river runs through {c}?",
    "Is there a direct train to {c}?",
    "Write a short song about {c}",
    "What should I eat in {c}?",
    "Send a postcard to {c}",
    "What is the zip code of {c}?",
    "I was in {c} last year",
    "How many universities are in {c}?",
    "Order me a taxi in {c}",
    "What does the name {c} mean?",
    "Summarize the history of {c}",
    "Who won the match in {c}?",
)
UNSEEN_CITIES = (
    *("Lisbon", "Oslo", "Nairobi", "Bogota", "Calgary", "Krakow", "Venice", "Florence", "Bergen"),
    *("Sofia", "Bucharest", "Marrakesh", "Hyderabad", "Nagoya", "Adelaide", "Austin", "Phoenix"),
    *("Edinburgh", "Tallinn", "Kuala Lumpur", "Tel Aviv", "Santa Fe", "Ljubljana", "Reykjavik"),
    *("Kinshasa", "Wellington", "Bristol", "Seville", "Antwerp", "Nashville"),
)
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
    answers = guided.greedy_replies(
        model, tokenizer, [probe.prompt for probe in probes], [probe.offers for probe in probes]
    )
    return [probe.right(answer) for probe, answer in zip(probes, answers, strict=True)]


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
        _probe(rng, Exchange(ask=rng.choice(UNSEEN_OTHERS).format(c=_city(rng)), reply=""))
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
    return drawn


def unseen_ask(rng: random.Random, intent: Intent) -> Ask:
    wording = rng.choice(UNSEEN[intent])
    if intent == "sum":
        a, b = tool_talk.number(rng), tool_talk.number(rng)
        return Ask(text=wording.format(a=a, b=b), numbers=(a, b))
    city = _city(rng)
    return Ask(text=wording.format(c=city), city=city)


def _city(rng: random.Random) -> str:
    return rng.choice(UNSEEN_CITIES)


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
