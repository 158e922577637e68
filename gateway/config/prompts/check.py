"""Cross-checks of `prompts`: names, versions, and the default."""

from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.prompts.section import Prompt


def check_prompts(config: Config, problems: Problems) -> None:
    """Record faults. That files can be read is known by then: see `with_prompts`."""
    names: dict[str, int] = {}
    for at, prompt in enumerate(config.prompts):
        path: Path = ("prompts", at)
        first = names.setdefault(prompt.name, at)
        if first != at and not problems.at((*path, "name")):
            text = f" is already the name of prompts[{first}]"
            problems.add((*path, "name"), Found(prompt.name), text)
        _versions(prompt, path, problems)


def _versions(prompt: Prompt, path: Path, problems: Problems) -> None:
    where = (*path, "versions")
    if problems.at(where):
        return
    if not prompt.versions:
        problems.add(where, "is empty; give at least one version with its file")
        return
    seen: dict[str, int] = {}
    texts: dict[str, str] = {}
    for place, version in enumerate(prompt.versions):
        at = (*where, place, "version")
        first = seen.setdefault(version.name, place)
        if first != place and not problems.at(at):
            problems.add(at, Found(version.name), f" is already the name of versions[{first}]")
        if version.digest:
            same = texts.setdefault(version.digest, version.name)
            if same != version.name:
                problems.warn((*where, place), f"has the same text as version {same}")
    names = list(seen)
    default = (*path, "default")
    if problems.at(default):
        return
    if prompt.default is None:
        if len(names) > 1:
            problems.add(default, f"is missing; name one of the versions: {', '.join(names)}")
    elif prompt.default_name not in seen:
        hint = nearest(prompt.default_name, names, "versions:")
        problems.add(default, "no version is named ", Found(prompt.default_name), hint)
