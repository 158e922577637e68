"""Cross-checks of `webhooks`: names, addresses, secrets, and the budgets that they are for."""

import re
from urllib.parse import urlsplit

from strowger_gateway.gateway.config.checks.access import SHORTEST_KEY
from strowger_gateway.gateway.config.checks.models import matches
from strowger_gateway.gateway.config.checks.providers import check_file
from strowger_gateway.gateway.config.own_rules import configured_budgets
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.webhooks import Webhook

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The name of a header. https://www.rfc-editor.org/rfc/rfc9110#name-tokens"""


def check_webhooks(config: Config, problems: Problems) -> None:
    names: dict[str, int] = {}
    for index, webhook in enumerate(config.webhooks):
        path: Path = ("webhooks", index)
        first = names.setdefault(webhook.name, index)
        if first != index and not problems.at((*path, "name")):
            text = f" is already the name of webhooks[{first}]"
            problems.add((*path, "name"), Found(webhook.name), text)
        _address(webhook, path, problems)
        _secrets(webhook, path, problems)
        _budgets(webhook, path, config, problems)
        if webhook.ca_file is not None:
            check_file(webhook.ca_file, (*path, "ca_file"), problems)


def _address(webhook: Webhook, path: Path, problems: Problems) -> None:
    place = (*path, "url")
    if problems.at(place):
        return
    try:
        parts = urlsplit(webhook.url.reveal())
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    else:
        usable = usable and parts.scheme in ("http", "https") and not parts.fragment
        usable = usable and "@" not in parts.netloc
    if not usable or re.search(r"[^\x21-\x7e]", webhook.url.reveal()):
        problems.add(place, "is not a URL such as https://hooks.example.com/budgets")


def _secrets(webhook: Webhook, path: Path, problems: Problems) -> None:
    secret = webhook.secret.reveal()
    if not problems.at((*path, "secret")):
        if not secret:
            problems.add((*path, "secret"), "is empty; receivers verify signatures with it")
        elif len(secret) < SHORTEST_KEY:
            text = f"has only {len(secret)} characters and can be guessed; use 16 random ones"
            problems.warn((*path, "secret"), text)
    for name, value in webhook.headers.items():
        if not _TOKEN.fullmatch(name) or re.search(r"[^\t\x20-\x7e]", value.reveal()):
            problems.add((*path, "headers", name), "is not a header")


def _budgets(webhook: Webhook, path: Path, config: Config, problems: Problems) -> None:
    names = [budget.name for budget in configured_budgets(config)]
    for place, pattern in enumerate(webhook.budgets):
        where = (*path, "budgets", place)
        of_key = pattern.startswith("key:")  # issued keys come and go
        known = pattern == "*" or of_key or any(matches(pattern, name) for name in names)
        if not known and not problems.at(where) and not problems.under(("budgets",)):
            hint = nearest(pattern, names) or "; there are none in budgets"
            problems.add(where, "no budget is named ", Found(pattern), hint)
