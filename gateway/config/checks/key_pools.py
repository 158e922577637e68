"""Checks of a provider's several keys: `providers[].api_keys`."""

from strowger_gateway.gateway.config.checks.credentials import check_key
from strowger_gateway.gateway.config.problems import Found, Path, Problems
from strowger_gateway.gateway.config.schema.config import Provider


def check_key_pool(provider: Provider, path: Path, problems: Problems) -> None:
    """path: the provider's."""
    place: Path = (*path, "api_keys")
    if not provider.api_keys or problems.at(place):
        return
    if provider.api_key and not problems.at((*path, "api_key")):
        problems.add(place, "conflicts with api_key; move that key into the list")
    if any(name.lower() == "authorization" for name in provider.headers):
        problems.add(place, "its keys and headers.authorization are the same header; give one")
    names: dict[str, int] = {}
    secrets: dict[str, int] = {}
    for index, key in enumerate(provider.pooled_keys):
        at: Path = (*place, index)
        check_key(key.key, (*at, "key"), problems)
        first = names.setdefault(key.name, index)
        if first != index and not problems.at((*at, "name")):
            problems.add(
                (*at, "name"),
                f"is also that of api_keys[{first}]; give each a name of its own: ",
                Found(key.name),
            )
        if problems.at((*at, "key")) or problems.under(at):
            continue
        if not key.key:
            problems.add((*at, "key"), "is empty; give it a key, or remove the entry")
            continue
        same = secrets.setdefault(key.key.reveal(), index)
        if same != index:
            problems.warn((*at, "key"), f"is the same key as api_keys[{same}]; remove one")
