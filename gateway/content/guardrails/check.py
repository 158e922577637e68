"""Cross-checks of `guardrails`: names, and whose requests they examine."""

from urllib.parse import urlsplit

from strowger_gateway.gateway.config.checks.limits import check_scope
from strowger_gateway.gateway.config.checks.models import matches
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.guardrails import GuardrailConfig
from strowger_gateway.gateway.content.guardrails.moderating import (
    guardrails_in,
    moderated_here,
    moderating_backends,
    own_providers,
)

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def check_guardrails(config: Config, problems: Problems) -> None:
    names: dict[str, int] = {}
    for index, guardrail in enumerate(config.guardrails):
        path: Path = ("guardrails", index)
        first = names.setdefault(guardrail.name, index)
        if first != index and not problems.at((*path, "name")):
            text = f" is already the name of guardrails[{first}]"
            problems.add((*path, "name"), Found(guardrail.name), text)
        check_scope(guardrail, path, config, problems, "guardrail")
        if _judges_itself(guardrail, config):
            problems.warn(
                (*path, "models"),
                "include the judge's own model at this gateway, so each judgement is judged in its "
                "turn until timeout_s; list only the other models",
            )
    _moderation(config, problems)


def _moderation(config: Config, problems: Problems) -> None:
    """Check what backends of `adapter: guardrails` name, and who else examines their texts."""
    names = [one.name for one in config.guardrails]
    for one in moderating_backends(config):
        for name in guardrails_in(one.name, names):
            if name not in names and not problems.under(one.path) and not problems.at(one.path):
                lead = nearest(name, names) if names else "; there are none, see guardrails"
                problems.add(one.path, "no guardrail is named ", Found(name), lead)
    own, alone = own_providers(config), moderated_here(config)
    for model in config.models:
        if model.name in alone or not any(ref.provider in own for ref in model.backends):
            continue
        for index, guardrail in enumerate(config.guardrails):
            acts = guardrail.mode != "monitor" and guardrail.where != "output"
            if acts and any(matches(pattern, model.name) for pattern in guardrail.models):
                problems.warn(
                    ("guardrails", index, "models"),
                    f"include {model.name!r}, so this guardrail blocks or masks what it would "
                    "flag there, because other backends may get the text; list only other models, "
                    "or give that model no backend, fallback, mirror or experiment but guardrails",
                )


def _judges_itself(guardrail: GuardrailConfig, config: Config) -> bool:
    """True if the judge is a model of this gateway whose requests the guardrail examines."""
    url, judge = guardrail.settings.get("base_url"), guardrail.settings.get("model")
    if guardrail.use != "judge" or not isinstance(url, str) or not isinstance(judge, str):
        return False
    try:
        address = urlsplit(url)
        own = address.hostname in _LOOPBACK and address.port == config.server.port
    except ValueError:  # the guardrail itself names what is wrong with the URL
        return False
    names = {judge}
    for model in config.models:
        if judge == model.name or judge in model.aliases:
            names |= {model.name, *model.aliases}
    examined = any(matches(pattern, name) for pattern in guardrail.models for name in names)
    return own and guardrail.who.any and examined
