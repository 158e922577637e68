"""Cross-checks of `capabilities`: the operator's facts about models."""

from datetime import date

from strowger_gateway.gateway.config.checks.routing import reachable
from strowger_gateway.gateway.config.model_patterns import overlap
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.capabilities import Capability
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.schemas.close_names import close_names


def check_model_facts(config: Config, problems: Problems) -> None:
    providers = {provider.name for provider in config.providers}
    used = list(dict.fromkeys(reachable(config)))
    seen: dict[str, int] = {}
    for index, row in enumerate(config.capabilities):
        _limits(row, ("capabilities", index), problems)
        _date(row, ("capabilities", index, "retires"), problems)
        path: Path = ("capabilities", index, "match")
        if problems.at(path):
            continue
        first = seen.setdefault(row.match, index)
        if first != index:
            problems.add(path, f"is the same as capabilities[{first}]; remove one of them")
        owner = row.match.partition("/")[0]
        if owner not in providers and "" not in providers and not problems.at(("providers",)):
            problems.add(path, "no provider is named ", Found(owner), nearest(owner, providers))
        elif not any(overlap(name, row.match) for name in used):
            close = close_names(row.match, used)
            hint = f'; did you mean "{close[0]}"?' if close else ""
            problems.warn(path, "no model has the backend ", Found(row.match), hint)


def _limits(row: Capability, path: Path, problems: Problems) -> None:
    most, context = row.max_output, row.context
    place: Path = (*path, "max_output")
    both = (place, (*path, "context"))
    if any(map(problems.at, both)) or not isinstance(most, int):
        return
    if isinstance(context, int) and most > context:
        problems.add(
            place, f"{most} is more than context ({context}), which prompt and answer share"
        )


def _date(row: Capability, place: Path, problems: Problems) -> None:
    if row.retires is not None and not problems.at(place):
        try:
            date.fromisoformat(row.retires)
        except ValueError:
            problems.add(place, Found(row.retires), " is not a date; write it as 2027-01-31")
