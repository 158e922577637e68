"""Cross-checks of `guardrails`: names, and whose requests they examine."""

from gateway.config.checks.limits import check_scope
from gateway.config.problems import Found, Path, Problems
from gateway.config.schema.config import Config


def check_guardrails(config: Config, problems: Problems) -> None:
    names: dict[str, int] = {}
    for index, guardrail in enumerate(config.guardrails):
        path: Path = ("guardrails", index)
        first = names.setdefault(guardrail.name, index)
        if first != index and not problems.at((*path, "name")):
            text = f" is already the name of guardrails[{first}]"
            problems.add((*path, "name"), Found(guardrail.name), text)
        check_scope(guardrail, path, config, problems, "guardrail")
