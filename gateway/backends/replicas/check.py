"""Cross-checks of `models[].backends[].discover`."""

from collections.abc import Iterator
from importlib.util import find_spec

from strowger_gateway.gateway.config.adapter_names import WITHOUT_WIRE
from strowger_gateway.gateway.config.dns_server import server_of
from strowger_gateway.gateway.config.problems import Found, Path, Problems
from strowger_gateway.gateway.config.schema.config import Config, Provider
from strowger_gateway.gateway.config.schema.discovery import Discover


def check_discovery(config: Config, problems: Problems) -> None:
    providers = {provider.name: provider for provider in config.providers}
    found: set[tuple[str, str]] = set()
    for index, model in enumerate(config.models):
        for place, ref in enumerate(model.backends):
            path: Path = ("models", index, "backends", place, "discover")
            if ref.discover is None or problems.at(path) or problems.under(path):
                continue
            check_discover(ref.discover.addresses, path, problems)
            found.add((model.name, f"{ref.provider}/{ref.model}"))
            provider = providers.get(ref.provider)
            if provider is not None:
                _provider(provider, path, problems)
            if ref.model == "*":
                problems.add(path, "needs a model name in place of *")
    _single_uses(config, found, problems)


def check_discover(discover: Discover, path: Path, problems: Problems) -> None:
    """Check one section, wherever it is."""
    if (discover.dns is None) == (discover.file is None):
        problems.add(path, "needs either dns or file")
        return
    if discover.dns is not None and find_spec("dns") is None:
        words = "needs dnspython; pip install 'strowger-gateway[dns]', or use file"
        problems.add((*path, "dns"), words)
        return
    service = discover.dns is not None and discover.dns.startswith("_")
    if discover.file is not None:
        for field, value in (("port", discover.port), ("server", discover.server)):
            if value is not None:
                problems.add((*path, field), "has no effect with file; remove it")
    elif service and discover.port is not None:
        problems.add((*path, "port"), "is in the SRV records of the name; remove it")
    elif not service and not discover.port:
        problems.add((*path, "port"), "is needed from 1 to 65535: A and AAAA records have none")
    if discover.server is not None and not problems.at((*path, "server")):
        try:
            server_of(discover.server)
        except ValueError:
            text = " is not an address; write it as 10.0.0.53 or 10.0.0.53:8600"
            problems.add((*path, "server"), Found(discover.server), text)


def _provider(provider: Provider, path: Path, problems: Problems) -> None:
    """Replicas are asked directly, with the same headers."""
    if provider.adapter in WITHOUT_WIRE:
        problems.add(path, f"is for servers over HTTP, not for adapter {provider.adapter}")
        return
    if provider.base_url is None:
        problems.add(path, "needs the base_url of provider ", Found(provider.name))
    fields = ("oauth", "aws", "google", "azure", "proxy", "tokenizer")
    used = [field for field in fields if getattr(provider, field) is not None]
    if used:
        problems.add(path, f"does not work with providers[].{used[0]} of ", Found(provider.name))


def _single_uses(config: Config, found: set[tuple[str, str]], problems: Problems) -> None:
    """Variants and mirrors have one backend each, which is not a set of replicas."""
    if not found:
        return
    for path, model, backend in _uses(config):
        if (model, backend) in found and not problems.at(path):
            problems.add(path, Found(backend), " has discover, and a single backend is needed")


def _uses(config: Config) -> Iterator[tuple[Path, str, str]]:
    for index, model in enumerate(config.models):
        if model.mirror is not None:
            yield ("models", index, "mirror", "backend"), model.name, model.mirror.backend
    for index, experiment in enumerate(config.experiments):
        for place, variant in enumerate(experiment.variants):
            where: Path = ("experiments", index, "variants", place, "backend")
            yield where, experiment.model, variant.backend
