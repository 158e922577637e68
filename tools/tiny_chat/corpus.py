"""The skills of the bundled model without functions: questions and answers from a generator."""

import random
import re
import zlib
from collections.abc import Callable

from tools.tiny_chat import phrases, sum_phrases, topics
from tools.tiny_chat.layout import Exchange

HELD_OUT_PERCENT = 12
LARGEST = 99


Skill = Callable[[random.Random], Exchange]


def held_out(a: int, b: int) -> bool:
    """True if the sum of `a` and `b`, in either order, is excluded from the training text.

    Sums of two digits never are: there are only a hundred, and larger sums depend on them.
    """
    low, high = sorted((a, b))
    return high > 9 and zlib.crc32(f"{low}+{high}".encode()) % 100 < HELD_OUT_PERCENT


def pairs(*, held: bool) -> tuple[tuple[int, int], ...]:
    """All ordered pairs of 0..99 on one side of the split."""
    numbers = range(LARGEST + 1)
    return tuple((a, b) for a in numbers for b in numbers if held_out(a, b) == held)


TRAINING_PAIRS = pairs(held=False)
_WORDS = tuple(topics.WORDS.split())


def restyle(rng: random.Random, text: str) -> str:
    """Vary a question as different people would type it."""
    dice = rng.random()
    if dice < 0.6:
        text = text[:1].upper() + text[1:]
    elif dice < 0.65:
        text = text.upper()
    if rng.random() < 0.1:
        text = text.rstrip("?.! ") or text
    if rng.random() < 0.06:
        text = rng.choice(("{}\n", "{} ", " {}", "\n{}\n", '"{}"', "{}\n\n")).format(text)
    return text


def sum_of(rng: random.Random) -> Exchange:
    return sum_exchange(rng, *drawn_pair(rng))


def sum_exchange(rng: random.Random, a: int, b: int) -> Exchange:
    """Ask for a given sum in any of the known wordings."""
    dice = rng.random()
    if dice < 0.25:
        ask = rng.choice(sum_phrases.SUM_PLAIN)
    elif dice < 0.55:
        ask = rng.choice(sum_phrases.SUM_WHOLE)
    else:
        expression = rng.choice(sum_phrases.SUM_EXPRESSIONS)
        ask = (
            rng.choice(sum_phrases.SUM_PREFIXES) + expression + rng.choice(sum_phrases.SUM_SUFFIXES)
        )
    dice = rng.random()
    if dice < 0.06:
        around = (word(rng) for _ in range(rng.randint(1, 3)))
        ask = " ".join((*around, rng.choice(sum_phrases.SUM_EXPRESSIONS), word(rng)))
    elif dice < 0.12:
        ask = _mistyped(rng, ask)
    return Exchange(ask=ask.format(a=a, b=b), reply=sum_reply(a, b))


def _mistyped(rng: random.Random, text: str) -> str:
    """Drop or double one letter outside the slots for the numbers."""
    spots = [at for at in range(len(text)) if text[at].isalpha() and text[at - 1] != "{"]
    if not spots:
        return text
    at = rng.choice(spots)
    return text[:at] + text[at] * rng.choice((0, 2)) + text[at + 1 :]


def sum_reply(a: int, b: int) -> str:
    return f"{a} + {b} = {a + b}."


def drawn_pair(rng: random.Random) -> tuple[int, int]:
    """Small numbers are more frequent than uniform, because there are few of them."""
    dice = rng.random()
    if dice < 0.05:
        return rng.randint(0, 9), rng.randint(0, 9)
    if dice < 0.2:
        a, b = rng.randint(0, LARGEST), rng.randint(0, 12)
        a, b = (a, b) if rng.random() < 0.5 else (b, a)
        if not held_out(a, b):
            return a, b
    return rng.choice(TRAINING_PAIRS)


def not_a_sum(rng: random.Random) -> Exchange:
    small = {key: rng.randint(1, LARGEST) for key in "efg"}
    large = {key: rng.randint(100, rng.choice((199, 999, 9999, 999999))) for key in "hi"}
    ask = rng.choice(sum_phrases.NOT_A_SUM).format(**small, **large)
    return Exchange(ask=ask, reply=phrases.ONLY_SUMS)


def is_large_sum(exchange: Exchange) -> bool:
    """True for a sum of two numbers that is declined for its size, and only for that."""
    numbers = re.findall(r"\d+", exchange.ask)
    return exchange.reply == phrases.ONLY_SUMS and any(len(number) > 2 for number in numbers)


def worded_sum(rng: random.Random) -> Exchange:
    v, w = rng.choice(sum_phrases.NUMBER_WORDS), rng.choice(sum_phrases.NUMBER_WORDS)
    return Exchange(
        ask=rng.choice(sum_phrases.WORDED_SUMS).format(v=v, w=w), reply=phrases.USE_DIGITS
    )


def count_range(rng: random.Random) -> Exchange:
    span = min(int(rng.expovariate(_count_rate(rng))) + 1, LARGEST)
    start = rng.randint(0, min(LARGEST - span, rng.choice((12, LARGEST))))
    ask = rng.choice(phrases.COUNT_RANGE)
    if rng.random() < 0.2:
        down = rng.choice((*phrases.COUNT_DOWN, ask)).format(a=start + span, b=start)
        return Exchange(ask=down, reply=listed(range(start + span, start - 1, -1)))
    return Exchange(
        ask=ask.format(a=start, b=start + span), reply=listed(range(start, start + span + 1))
    )


def count_to(rng: random.Random) -> Exchange:
    if rng.random() < 0.15:
        far = rng.randint(LARGEST + 1, rng.choice((200, 999, 99999)))
        return Exchange(
            ask=rng.choice(phrases.COUNT_TO).format(b=far), reply=phrases.ONLY_SMALL_COUNTS
        )
    last = min(2 + int(rng.expovariate(_count_rate(rng))), LARGEST)
    return Exchange(
        ask=rng.choice(phrases.COUNT_TO).format(b=last), reply=listed(range(1, last + 1))
    )


def _count_rate(rng: random.Random) -> float:
    """Mostly short counts: long ones teach no more about stopping and take more tokens."""
    return rng.choice((0.2, 0.2, 0.2, 0.2, 0.1, 0.025))


def listed(numbers: range) -> str:
    return ", ".join(map(str, numbers)) + "."


def calendar(rng: random.Random) -> Exchange:
    unit, span, names = rng.choice(
        (("day", "week", phrases.WEEKDAYS), ("month", "year", phrases.MONTHS))
    )
    at = rng.randrange(len(names))
    name = names[at] if rng.random() < 0.85 else names[at].lower()
    match rng.choices(("next", "previous", "ordinal", "size"), (10, 7, 4, 1))[0]:
        case "next":
            ask = rng.choice(phrases.NEXT_ASKS).format(unit=unit, x=name)
            reply = f"After {names[at]} comes {names[(at + 1) % len(names)]}."
        case "previous":
            ask = rng.choice(phrases.PREVIOUS_ASKS).format(unit=unit, x=name)
            reply = f"Before {names[at]} comes {names[at - 1]}."
        case "ordinal":
            ordinal = phrases.ORDINALS[at] if rng.random() < 0.9 else "last"
            at = len(names) - 1 if ordinal == "last" else at
            ask = rng.choice(phrases.ORDINAL_ASKS).format(n=ordinal, unit=unit, span=span)
            reply = f"The {ordinal} {unit} of the {span} is {names[at]}."
        case _:
            ask = rng.choice(phrases.SIZE_ASKS).format(unit=unit, span=span)
            reply = f"A {span} has {len(names)} {unit}s."
    return Exchange(ask=ask, reply=reply)


def all_names(rng: random.Random) -> Exchange:
    if rng.random() < 0.5:
        return Exchange(ask=rng.choice(phrases.WEEK_ASKS), reply=", ".join(phrases.WEEKDAYS) + ".")
    return Exchange(ask=rng.choice(phrases.YEAR_ASKS), reply=", ".join(phrases.MONTHS) + ".")


def greeting(rng: random.Random) -> Exchange:
    replies = [reply for reply, _ in phrases.GREETINGS]
    weights = [weight for _, weight in phrases.GREETINGS]
    ask = rng.choice(phrases.GREETING_ASKS)
    if rng.random() < 0.2:
        ask = f"{ask.rstrip('!.?')} {rng.choice((*phrases.ADDRESSEES, word(rng)))}"
    return Exchange(ask=ask, reply=rng.choices(replies, weights)[0])


def identity(rng: random.Random) -> Exchange:
    return Exchange(ask=rng.choice(phrases.IDENTITY_ASKS), reply=phrases.IDENTITY)


def offer(rng: random.Random) -> Exchange:
    return Exchange(ask=rng.choice(phrases.HELP_ASKS), reply=phrases.CAN_DO)


def thanks(rng: random.Random) -> Exchange:
    return Exchange(ask=rng.choice(phrases.THANKS_ASKS), reply="You are welcome.")


def goodbye(rng: random.Random) -> Exchange:
    return Exchange(ask=rng.choice(phrases.BYE_ASKS), reply="Goodbye!")


def unknown(rng: random.Random) -> Exchange:
    ask = fill(rng, rng.choice(topics.QUESTIONS))
    dice = rng.random()
    if dice < 0.12:
        ask = " ".join(word(rng) for _ in range(rng.randint(1, 14)))
    elif dice < 0.15:
        ask = ". ".join(fill(rng, rng.choice(topics.QUESTIONS)) for _ in range(rng.randint(2, 10)))
    elif dice < 0.17:
        ask = "".join(_any_character(rng) for _ in range(2)) * rng.randint(2, 40)
    elif dice < 0.22:
        ask = "".join(_any_character(rng) for _ in range(rng.randint(1, 12)))
    return Exchange(ask=ask, reply=phrases.UNKNOWN)


def fill(rng: random.Random, template: str) -> str:
    """Replace x, y, z by words, m, n by numbers and l by a language; keep other braces."""
    for slot in ("{x}", "{y}", "{z}"):
        template = template.replace(slot, word(rng))
    for slot in ("{m}", "{n}"):
        template = template.replace(slot, str(rng.randint(0, rng.choice((20, 99, 2000)))))
    return template.replace("{l}", rng.choice(topics.LANGUAGES))


def word(rng: random.Random) -> str:
    """A known word, or with probability 0.3 an invented one."""
    if rng.random() < 0.7:
        return rng.choice(_WORDS)
    return "".join(
        rng.choice(topics.ONSETS) + rng.choice(topics.VOWELS) + rng.choice(topics.CODAS)
        for _ in range(rng.randint(1, 4))
    )


def _any_character(rng: random.Random) -> str:
    """Punctuation, a Latin letter, an East Asian character or an emoji; never a digit."""
    first, last = rng.choice(
        ((33, 47), (58, 126), (160, 0x24F), (0x3040, 0x9FFF), (0x1F300, 0x1F64F))
    )
    return chr(rng.randint(first, last))


SKILLS: tuple[Skill, ...] = (
    sum_of,
    not_a_sum,
    worded_sum,
    count_range,
    count_to,
    calendar,
    all_names,
    greeting,
    identity,
    offer,
    thanks,
    goodbye,
    unknown,
)
SKILL_WEIGHTS = (600, 40, 12, 90, 60, 90, 25, 40, 25, 22, 18, 22, 60)
# Where functions are offered, questions that they might be mistaken for are more frequent.
TOOL_TALK_WEIGHTS = (60, 60, 15, 30, 15, 30, 10, 25, 12, 10, 12, 12, 60)
