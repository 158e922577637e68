"""The training text of the bundled model: conversations and plain lines from a seeded generator."""

import random
from collections.abc import Iterator

import msgspec

from tools.tiny_chat import asks, corpus, layout, phrases, sum_phrases, tool_talk, topics
from tools.tiny_chat.asks import Ask
from tools.tiny_chat.corpus import word
from tools.tiny_chat.functions import Function, Intent
from tools.tiny_chat.layout import BOS, END, USER, Document, Exchange, Segment


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """How often which functions are offered, as probabilities.

    tools:   that a document offers functions. Such documents are long: of the tokens it is more.
    alone:   that it offers exactly one.
    fitting: otherwise, for each of the three purposes, that a function for it is offered.
    dropped: that a conversation with calls no longer shows the functions.
    missing: that a question without functions is one that would need them.
    """

    tools: float
    alone: float
    fitting: float
    dropped: float
    missing: float


MIX = Mix(tools=0.5, alone=0.3, fitting=0.65, dropped=0, missing=0.15)


def documents(rng: random.Random, *, longest_turns: int, mix: Mix = MIX) -> Iterator[Document]:
    """Endless documents; a conversation has at most `longest_turns` exchanges."""
    while True:
        dice = rng.random()
        if dice < 0.18:
            yield _raw(rng)
        elif dice < 0.18 + mix.tools:
            yield _with_functions(rng, longest_turns, mix)
        else:
            turns = min(longest_turns, 1 + int(rng.expovariate(3 / longest_turns)))
            yield _conversation(rng, turns, mix)


def _conversation(rng: random.Random, turns: int, mix: Mix) -> Document:
    system = _system(rng) if rng.random() < 0.35 else None
    exchanges = tuple(_plain_exchange(rng, mix) for _ in range(turns))
    laid_out = layout.conversation(exchanges, system)
    if rng.random() < 0.04:
        unanswered = Segment(text=BOS + USER + _exchange(rng).ask + END, learnt=False)
        first = laid_out[0]
        laid_out = (
            unanswered,
            Segment(text=first.text.removeprefix(BOS), learnt=False),
            *laid_out[1:],
        )
    return laid_out


def _system(rng: random.Random) -> str:
    system = corpus.fill(rng, rng.choice(topics.SYSTEM_PROMPTS))
    if rng.random() < 0.3:
        system += " " + corpus.fill(rng, rng.choice(topics.SYSTEM_PROMPTS))
    return system


def _plain_exchange(rng: random.Random, mix: Mix) -> Exchange:
    """An exchange where no functions are offered."""
    if mix.missing and rng.random() < mix.missing:
        return tool_exchange(rng, ())
    return _exchange(rng)


def _exchange(rng: random.Random) -> Exchange:
    skill = rng.choices(corpus.SKILLS, corpus.SKILL_WEIGHTS)[0]
    drawn = skill(rng)
    return Exchange(ask=corpus.restyle(rng, drawn.ask), reply=drawn.reply)


def _with_functions(rng: random.Random, longest_turns: int, mix: Mix) -> Document:
    """A conversation of at most a third of the turns, because functions take room.

    It asks several questions where several functions are offered: to choose between functions is
    the hardest, and each question is a choice.
    """
    alone = rng.random() < mix.alone
    offers = (
        tool_talk.one_offered(rng, word) if alone else tool_talk.offered(rng, word, mix.fitting)
    )
    turns = min(max(1, longest_turns // 3), 1 + int(rng.expovariate(0.45)))
    exchanges = tuple(tool_exchange(rng, offers) for _ in range(turns))
    system = _system(rng) if rng.random() < 0.25 else None
    called = exchanges[0].call is not None and rng.random() < mix.dropped
    return layout.conversation(exchanges, system, () if called else offers)


def tool_exchange(rng: random.Random, offers: tuple[Function, ...]) -> Exchange:
    """A question for one of the three intents, or another one, where `offers` are offered."""
    dice = rng.random()
    if dice < 0.2:
        return _own_exchange(rng, offers)
    if dice < 0.34:
        return Exchange(ask=asks.other_ask(rng, word).text, reply=phrases.UNKNOWN)
    intent = _intent(rng, offers)
    function = tool_talk.function_for(offers, intent)
    if intent == "sum":
        return _sum(rng, function)
    ask = asks.city_ask(rng, intent, word, asks.city_name(rng, word))
    return answered(rng, ask, intent, function)


def _own_exchange(rng: random.Random, offers: tuple[Function, ...]) -> Exchange:
    """A question that the model answers itself: no sum, if there is a function for sums."""
    sums = tool_talk.function_for(offers, "sum") is not None
    while True:
        skill = rng.choices(corpus.SKILLS, corpus.TOOL_TALK_WEIGHTS)[0]
        drawn = skill(rng)
        if sums and (skill is corpus.sum_of or corpus.is_large_sum(drawn)):
            continue
        return Exchange(ask=corpus.restyle(rng, drawn.ask), reply=drawn.reply)


def _intent(rng: random.Random, offers: tuple[Function, ...]) -> Intent:
    """Any intent; three times of four one for which there is a function, if there is one."""
    fitting: list[Intent] = [function.intent for function in offers if function.intent != "other"]
    if fitting and rng.random() < 0.7:
        return rng.choice(fitting)
    return rng.choice(tool_talk.INTENTS)


def _sum(rng: random.Random, function: Function | None) -> Exchange:
    if function is None:
        small = rng.random() < 0.6
        a, b = corpus.drawn_pair(rng) if small else (rng.randint(100, 9999), rng.randint(0, 9999))
        if rng.random() < 0.5:
            a, b = b, a
        ask = asks.sum_ask(rng, word, a, b)
        first, second = ask.numbers or (a, b)
        reply = corpus.sum_reply(first, second) if small else phrases.ONLY_SUMS
        return Exchange(ask=ask.text, reply=reply)
    ask = asks.sum_ask(rng, word, tool_talk.number(rng), tool_talk.number(rng))
    return answered(rng, ask, "sum", function)


def answered(rng: random.Random, ask: Ask, intent: Intent, function: Function | None) -> Exchange:
    """The call of the function and the answer from its result; without one, a refusal."""
    if function is None:
        return Exchange(ask=ask.text, reply=tool_talk.refusal(intent))
    call = tool_talk.call_of(rng, function, ask, word)
    return Exchange(ask=ask.text, reply=tool_talk.reply_to(intent, ask, call.result), call=call)


def _raw(rng: random.Random) -> Document:
    match rng.choices(("sum", "names", "numbers", "other"), (12, 3, 2, 1))[0]:
        case "sum":
            a, b = corpus.drawn_pair(rng)
            prompt, rest = (
                part.format(a=a, b=b, c=a + b) for part in rng.choice(sum_phrases.RAW_SUMS)
            )
        case "names":
            names = rng.choice((phrases.WEEKDAYS, phrases.MONTHS))
            cut = rng.randint(1, len(names) - 1)
            prompt, rest = ", ".join(names[:cut]) + ",", " " + ", ".join(names[cut:]) + "."
        case "numbers":
            start, shown = rng.choice((1, rng.randint(0, 80))), rng.randint(2, 6)
            last = max(start + shown + 1, (start + shown) // 10 * 10 + 10)
            comma = rng.choice((", ", ", ", ","))
            prompt = comma.join(map(str, range(start, start + shown))) + ","
            rest = comma[1:] + comma.join(map(str, range(start + shown, last + 1))) + "."
        case _:
            ask = rng.choice((corpus.unknown, corpus.greeting, corpus.unknown))(rng).ask
            prompt, rest = corpus.restyle(rng, ask), phrases.RAW_UNKNOWN
    head = BOS if rng.random() < 0.85 else ""
    return (Segment(text=head + prompt, learnt=False), Segment(text=rest + END, learnt=True))
