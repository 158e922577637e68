"""What only building shows, for `strowger check`: tried apart, so that one fault hides no other."""

from collections.abc import Iterator

from strowger_gateway.gateway.config.problems import Path, Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.schemas.errors import InvalidConfig


def try_parts(config: Config, problems: Problems) -> None:
    """Record the faults of guardrails and of the store that are no fault of a field.

    config: may have faults; what has one is not tried. Nothing is opened or sent.
    """
    for path, text in (*_guardrails(config, problems), *_store(config, problems)):
        problems.add(path, text)


def _guardrails(config: Config, problems: Problems) -> Iterator[tuple[Path, str]]:
    from strowger_gateway.gateway.content.guardrails.setup import guards_named

    for index, one in enumerate(config.guardrails):
        place: Path = ("guardrails", index)
        if problems.under(place) or problems.at(place):
            continue
        try:
            guards_named(config, [one.name])
        except InvalidConfig as exc:
            for problem in exc.problems:
                where, _, text = problem.partition(": ")
                field = where.partition("].")[2]
                yield (*place, *(field.split(".") if field else ())), text or where


def _store(config: Config, problems: Problems) -> Iterator[tuple[Path, str]]:
    from strowger_gateway.gateway.storage.sql.open import open_store

    place: Path = ("store", "url")
    if problems.at(place):
        return
    try:
        open_store(config.store.url).close()
    except InvalidConfig as exc:
        for problem in exc.problems:
            yield place, problem.removeprefix("store.url: ")
