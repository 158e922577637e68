"""Questions that a function answers, composed from the tables, and questions that none answers."""

import random
import string
from collections.abc import Callable

import msgspec

from tools.tiny_chat import city_phrases, frames, held_out, sum_phrases, tool_phrases
from tools.tiny_chat.functions import OWN, WORDS, Intent

Word = Callable[[random.Random], str]


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A question, and what it names: numbers of a sum, or a city as it is written there."""

    text: str
    numbers: tuple[int, int] | None = None
    city: str = ""


def _listed(table: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in table.replace("\n", " ").split(","))


CITIES = _listed(frames.CITIES)
_BEGINNINGS = frames.BEGINNINGS.split()
_ADJECTIVES = tuple(city_phrases.WEATHER_ADJECTIVES.split())
SKIES = (
    *_ADJECTIVES,
    "clear sky",
    "partly cloudy",
    "light rain",
    "heavy snow",
    "overcast",
    "clear",
)
_SKY = _listed(city_phrases.WEATHER_NOUNS_OF_SKY)
_TIMES = tuple(city_phrases.TIMES_OF_DAY.split())


def city_name(rng: random.Random, word: Word) -> str:
    """A city of the list, or an invented one, as people type it."""
    dice = rng.random()
    if dice < 0.3:
        name = rng.choice(CITIES)
    else:
        parts = [invented(rng, word).capitalize() for _ in range(rng.choice((1, 1, 1, 2)))]
        if dice < 0.4:
            parts = [rng.choice(_BEGINNINGS), parts[0]]
        name = " ".join(parts)
    if rng.random() < 0.04:
        name += ", " + rng.choice(frames.COUNTRIES)
    return name.lower() if rng.random() < (0.05 if " " in name else 0.2) else name


def invented(rng: random.Random, word: Word) -> str:
    """A name of letters: a word, two parts of words, or any letters, so that all are copied."""
    dice = rng.random()
    if dice < 0.2:
        return "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randint(2, 8)))
    while True:
        drawn = word(rng)
        if dice < 0.6:
            drawn = drawn[: rng.randint(1, 5)] + rng.choice(CITIES).lower()[-rng.randint(2, 5) :]
        if drawn.isalpha() and len(drawn) >= 3 and drawn.lower() not in OWN:
            return drawn


def city_ask(rng: random.Random, intent: Intent, word: Word, city: str) -> Ask:
    """Ask for the weather or the time of a city."""
    return _unmeasured(lambda: _city_ask(rng, intent, word, city))


def sum_ask(rng: random.Random, word: Word, a: int, b: int) -> Ask:
    """Ask for a sum, in the wordings that the model answers itself and in others."""
    return _unmeasured(lambda: _sum_ask(rng, word, a, b))


def other_ask(rng: random.Random, word: Word) -> Ask:
    """Ask something with a city, or with words of weather and time, that no function answers."""
    return _unmeasured(lambda: _other_ask(rng, word))


def _unmeasured(drawn: Callable[[], Ask | None]) -> Ask:
    """Draw until the wording is none of those that measure the model."""
    while (ask := drawn()) is None:
        pass
    return ask


def _city_ask(rng: random.Random, intent: Intent, word: Word, city: str) -> Ask | None:
    weather = intent == "weather"
    place = rng.choice(frames.PLACES)
    later = frames.LATER if weather else ()
    when = rng.choice((*frames.WHENS, *later))
    nouns = city_phrases.WEATHER_NOUNS if weather else city_phrases.TIME_NOUNS
    asked = city_phrases.WEATHER_QUESTIONS if weather else city_phrases.TIME_QUESTIONS
    dice = rng.random()
    if dice < 0.22:
        bare = place if rng.random() < 0.9 else "{c}"
        core = rng.choice(frames.DIRECT) + rng.choice(nouns) + " " + bare + when
    elif dice < 0.3:
        core = rng.choice(frames.DIRECT) + "{c}'s " + _of_a_city(rng.choice(nouns)) + when
    elif dice < 0.42:
        clauses = city_phrases.WEATHER_CLAUSES if weather else city_phrases.TIME_CLAUSES
        core = rng.choice(frames.INDIRECT) + rng.choice(clauses).replace("{p}", place) + when
    elif dice < 0.78:
        core = rng.choice(asked).replace("{p}", place) + when
    elif dice < 0.88:
        core = _apart(rng, rng.choice((*asked, *nouns)), place, when)
    else:
        cues = tool_phrases.WEATHER_CUES if weather else tool_phrases.TIME_CUES
        core = _soup(rng, word, rng.choice(cues), place, city)
    if dice < 0.78 and when and rng.random() < 0.15:
        core = f"{when.strip()}, {core.removesuffix(when)}"
    return _asked(rng, word, core, city=city, soup=dice >= 0.88)


def _of_a_city(noun: str) -> str:
    """A noun as it follows a possessive."""
    return noun.removeprefix("the ").removeprefix("a ").removeprefix("today's ")


def _apart(rng: random.Random, asked: str, place: str, when: str) -> str:
    """A question and a city with a mark between them."""
    if "{c}" in asked:
        return asked.replace("{p}", place) + when
    named = place if rng.random() < 0.2 else "{c}"
    asked = asked.removesuffix(" {p}").replace("{p}", "there")
    mark = rng.choice(frames.MARKS)
    if rng.random() < 0.75:
        return named + mark + asked + when
    return asked + when + rng.choice((mark, "? ")) + named


def _sum_ask(rng: random.Random, word: Word, a: int, b: int) -> Ask | None:
    dice = rng.random()
    if dice < 0.15:
        core = rng.choice(sum_phrases.SUM_PLAIN)
    elif dice < 0.3:
        core = rng.choice(sum_phrases.SUM_WHOLE)
    elif dice < 0.6:
        core = rng.choice(sum_phrases.SUM_PREFIXES) + rng.choice(sum_phrases.SUM_EXPRESSIONS)
        core += rng.choice(sum_phrases.SUM_SUFFIXES)
    elif dice < 0.85:
        core = rng.choice(tool_phrases.TOOL_SUMS)
    else:
        core = rng.choice(("{a}", "the number {a}")) + rng.choice((" ", " and ", ", ")) + "{b}"
        core = _shuffled(rng, word, [rng.choice(tool_phrases.SUM_CUES), core])
    return _asked(rng, word, core, numbers=(a, b))


def _other_ask(rng: random.Random, word: Word) -> Ask | None:
    dice = rng.random()
    if dice < 0.6:
        return _asked(rng, word, rng.choice(tool_phrases.CITY_OTHERS), city=city_name(rng, word))
    if dice < 0.75:
        city = city_name(rng, word)
        core = _soup(rng, word, _filler(rng, word), rng.choice(frames.PLACES), city)
        return _asked(rng, word, core, city=city, soup=True)
    return _asked(rng, word, rng.choice(tool_phrases.CUE_OTHERS))


def _soup(rng: random.Random, word: Word, cue: str, place: str, city: str) -> str:
    """A cue and a city among unrelated words, so that the name's end can be seen.

    A name in small letters comes last and after a preposition.
    """
    if city.islower():
        return _shuffled(rng, word, [cue]) + " " + place
    return _shuffled(rng, word, [cue, rng.choice((place, "{c}"))])


def _shuffled(rng: random.Random, word: Word, parts: list[str]) -> str:
    """Put parts and unrelated words in any order: what counts is which words there are."""
    parts += [_filler(rng, word) for _ in range(rng.randint(0, 4))]
    rng.shuffle(parts)
    return " ".join(parts)


def _filler(rng: random.Random, word: Word) -> str:
    """An unrelated word; no name, which could be a city."""
    while True:
        drawn = rng.choice(WORDS) if rng.random() < 0.7 else word(rng)
        if drawn.islower() and drawn not in OWN:
            return drawn


def _asked(
    rng: random.Random,
    word: Word,
    core: str,
    *,
    numbers: tuple[int, int] | None = None,
    city: str = "",
    soup: bool = False,
) -> Ask | None:
    """Add a lead and a tail, fill the slots, and write it as different people would type it.

    `None` if that is a wording that measures the model.

    soup: unrelated words around a name; capital letters would make them look like a part of it.
    """
    lead = rng.choice(frames.LEADS) if rng.random() < 0.5 else ""
    tail = rng.choice(frames.TAILS) if core[-1] not in "?.!=" else ""
    dice = rng.random()
    text = lead + core + tail
    if dice < 0.6 and not soup:
        text = text[:1].upper() + text[1:]
    slots = {
        "{w}": rng.choice(_ADJECTIVES),
        "{v}": rng.choice(_ADJECTIVES),
        "{n}": rng.choice(_SKY),
        "{u}": rng.choice(city_phrases.GEAR),
        "{d}": rng.choice(_TIMES),
        "{e}": rng.choice(_TIMES),
        "{f}": _filler(rng, word),
        "{g}": _filler(rng, word),
        "{k}": rng.choice(CITIES),
    }
    for slot, filling in slots.items():
        text = text.replace(slot, filling)
    if held_out.is_held_out(text):
        return None
    named = {"{c}": city}
    if numbers is not None:
        named |= {"{a}": str(numbers[0]), "{b}": str(numbers[1])}
    first, second = text.find("{a}"), text.find("{b}")
    if numbers is not None and second < first:
        numbers = (numbers[1], numbers[0])
    for slot, filling in named.items():
        text = text.replace(slot, filling)
    if 0.6 <= dice < 0.64 and not soup:
        text, city = text.upper(), city.upper()
    elif 0.64 <= dice < 0.68 and not city:
        text = text.lower()
    if rng.random() < 0.06 and not city:
        text = rng.choice(("{}\n", "{} ", " {}", "\n{}\n")).replace("{}", text)
    return Ask(text=text, numbers=numbers, city=city)
