"""Cross-checks of `providers`: adapters, URLs, credentials, certificates and engines."""

import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path as FilePath
from urllib.parse import SplitResult, urlsplit

from strowger_gateway.gateway.config.adapter_names import LOCAL, WITHOUT_WIRE, Defaults
from strowger_gateway.gateway.config.aws import aws_base_url, check_aws
from strowger_gateway.gateway.config.checks.credentials import (
    check_credential,
    check_key,
    check_keyless,
)
from strowger_gateway.gateway.config.checks.key_pools import check_key_pool
from strowger_gateway.gateway.config.cloud_credentials import check_cloud_credentials
from strowger_gateway.gateway.config.pool_headers import check_pool
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.remote_engines.checks import check_engines
from strowger_gateway.gateway.config.schema.config import Config, Engine, OAuth, Provider, Tls
from strowger_gateway.gateway.config.schema.connection import ClientFields, HealthCheck
from strowger_gateway.gateway.config.schema.units import MIB
from strowger_gateway.schemas.secret import Secret

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_V1 = ("vllm", "sglang")
"""Adapters without a default address whose servers use the path `/v1`."""
_ONE_ROUTE = ("/chat/completions", "/completions", "/embeddings", "/messages")
_PATH = re.compile(r"/[!\"$-~]*")  # without spaces and fragments
_OURS = frozenset(
    {
        "host",
        "content-length",
        "content-type",
        "transfer-encoding",
        "connection",
        "accept-encoding",
        "te",
        "trailer",
        "upgrade",
    }
)
"""Headers of the connection or body that the gateway sets itself."""

TOKENIZER_PACKAGES = ("tokenizers", "jinja2")
"""Packages for a provider's tokenizer; the extra `tokens` installs them."""

ENGINE_PACKAGES = ("torch", "transformers")
"""Those of the engine that no other extra installs; the extra `local` installs them."""

REMOTE_ONLY: Mapping[str, object] = {
    "base_url": None,
    "api_key": Secret(""),
    "api_keys": (),
    "oauth": None,
    "aws": None,
    "google": None,
    "azure": None,
    "headers": {},
    "health_check": None,
    "max_connections": None,
    "max_answer_bytes": 32 * MIB,
    "num_ctx": {},
    "continues": None,
    "tokenizer": None,
    "tls": Tls(),
    "proxy": None,
    "client_fields": ClientFields(),
    "pool": None,
}
"""Settings, with their defaults, that do not apply to what the gateway does itself."""


def check_providers(config: Config, problems: Problems, adapters: Mapping[str, Defaults]) -> None:
    names: dict[str, int] = {}
    for index, provider in enumerate(config.providers):
        path: Path = ("providers", index)
        first = names.setdefault(provider.name, index)
        if first != index and not problems.at((*path, "name")):
            problems.add(
                (*path, "name"), Found(provider.name), f" is already the name of providers[{first}]"
            )
        if "@" in provider.name and not provider.replica_of and not problems.at((*path, "name")):
            problems.add(
                (*path, "name"), Found(provider.name), " has an @, which is for replicas of engines"
            )
        _adapter(provider, path, problems, adapters)


def _adapter(
    provider: Provider, path: Path, problems: Problems, adapters: Mapping[str, Defaults]
) -> None:
    place = (*path, "adapter")
    if problems.at(place):
        return
    if provider.adapter not in adapters:
        problems.add(
            place,
            "no adapter is named ",
            Found(provider.adapter),
            nearest(provider.adapter, adapters),
        )
    if provider.adapter not in WITHOUT_WIRE:
        _remote(provider, path, problems, adapters)
        return
    for name, default in REMOTE_ONLY.items():
        if getattr(provider, name) != default and not problems.under((*path, name)):
            text = f"has no effect with adapter {provider.adapter}; remove it"
            problems.add((*path, name), text)
    if provider.adapter == LOCAL:
        _local(provider, path, problems)
    else:
        _no_engine(provider, path, problems)


def _local(provider: Provider, path: Path, problems: Problems) -> None:
    if provider.engines is not None:
        check_engines(provider, path, problems)
        return
    if provider.engine is None:
        if not problems.under((*path, "engine")) and not problems.under((*path, "engines")):
            problems.add(
                (*path, "engine"),
                "is missing; adapter local requires it, or `engines` for those elsewhere",
            )
        return
    _needs(ENGINE_PACKAGES, "local", (*path, "engine"), problems)
    check_engine(provider.engine, (*path, "engine"), problems)


def check_engine(engine: Engine, path: Path, problems: Problems, *, here: bool = True) -> None:
    """Check the models and adapters of an engine. here: their folders are on this machine."""
    if not engine.models and not problems.at((*path, "models")):
        problems.add((*path, "models"), "is empty; give at least one model")
    names: dict[str, int] = {}
    for index, model in enumerate(engine.models):
        place = (*path, "models", index)
        first = names.setdefault(model.name, index)
        if first != index and not problems.at((*place, "name")):
            problems.add((*place, "name"), Found(model.name), f" is already the name of [{first}]")
        folder = FilePath(model.path)
        if here and (folder.is_absolute() or model.path.startswith(".")):
            check_file(model.path, (*place, "path"), problems)
    _loras(engine, path, problems, names, here=here)


def _loras(
    engine: Engine, path: Path, problems: Problems, models: Mapping[str, int], *, here: bool
) -> None:
    """Check names, which must differ from the models', and bases, which must generate text."""
    bases = [model.name for model in engine.models if model.task == "generate"]
    names: dict[str, int] = {}
    for index, lora in enumerate(engine.loras):
        place = (*path, "loras", index)
        first = names.setdefault(lora.name, index)
        if not problems.at((*place, "name")):
            if first != index:
                problems.add(
                    (*place, "name"), Found(lora.name), f" is already the name of [{first}]"
                )
            elif lora.name in models:
                problems.add((*place, "name"), Found(lora.name), " is already the name of a model")
        if here:
            check_file(lora.path, (*place, "path"), problems)
        if problems.under((*path, "models")) or problems.at((*place, "base")):
            continue
        if lora.base is None:
            if len(bases) != 1:
                problems.add(
                    (*place, "base"),
                    f"is missing; the engine has {len(bases)} models with task: generate, name one",
                )
        elif lora.base not in bases:
            problems.add(
                (*place, "base"),
                "no model with task: generate is named ",
                Found(lora.base),
                nearest(lora.base, bases),
            )


def _remote(
    provider: Provider, path: Path, problems: Problems, adapters: Mapping[str, Defaults]
) -> None:
    _no_engine(provider, path, problems)
    place = (*path, "base_url")
    defaults = adapters.get(provider.adapter)
    if provider.base_url is not None:
        if not problems.at(place):
            _url(provider.base_url, place, problems)
            _place_of_v1(provider, provider.base_url, defaults, place, problems)
    elif (
        defaults is not None
        and not (defaults.base_url or aws_base_url(provider))
        and not problems.at(place)
    ):
        problems.add(
            place, "is missing; adapter ", Found(provider.adapter), " has no default address"
        )
    check_key(provider.api_key, (*path, "api_key"), problems)
    check_key_pool(provider, path, problems)
    if provider.num_ctx and provider.adapter != "ollama" and not problems.at((*path, "num_ctx")):
        problems.add((*path, "num_ctx"), "only adapter ollama has it; remove it")
    if (
        provider.continues not in (None, "no")
        and defaults is not None
        and not defaults.continues
        and not problems.at((*path, "continues"))
    ):
        problems.add(
            (*path, "continues"),
            "adapter ",
            Found(provider.adapter),
            " has its own form, or none; remove it, or set no",
        )
    _headers(provider, path, problems)
    if provider.health_check is not None:
        _health_check(provider.health_check, (*path, "health_check"), problems)
    if provider.pool is not None:
        check_pool(provider, provider.pool, (*path, "pool"), problems)
    if provider.oauth is not None:
        _oauth(provider, provider.oauth, path, problems, adapters.get(provider.adapter))
    if provider.aws is not None:
        check_aws(provider, provider.aws, path, problems)
    check_cloud_credentials(provider, path, problems)
    check_keyless(provider, path, problems, defaults)
    _credential_files(provider, path, problems)
    _tls(provider.tls, (*path, "tls"), problems)
    if provider.tokenizer is not None:
        check_file(provider.tokenizer, (*path, "tokenizer"), problems)
        _needs(TOKENIZER_PACKAGES, "tokens", (*path, "tokenizer"), problems)
    if provider.proxy is not None and not problems.at((*path, "proxy")):
        parts = _split(provider.proxy.reveal())
        if parts is None or parts.scheme not in ("http", "https"):
            problems.add((*path, "proxy"), "expected http://HOST:PORT or https://HOST:PORT")


def _no_engine(provider: Provider, path: Path, problems: Problems) -> None:
    for name in ("engine", "engines"):
        if getattr(provider, name) is not None and not problems.at((*path, name)):
            problems.add((*path, name), "requires adapter local, found ", Found(provider.adapter))


def _health_check(check: HealthCheck, path: Path, problems: Problems) -> None:
    if (check.path is None) == (check.request is None) and not problems.under(path):
        found = "has neither" if check.path is None else "has both"
        problems.add(
            path, f"{found} path and request; give path (such as /health), or request: smallest"
        )
    if check.path is not None and not _PATH.fullmatch(check.path):
        problems.add(
            (*path, "path"), Found(check.path), " is not a path; write it from the / on: /health"
        )
    if check.within_s > check.every_s and not problems.at((*path, "timeout_s")):
        problems.add(
            (*path, "timeout_s"),
            f"is {check.within_s:g}, which is more than every_s ({check.every_s:g})",
        )


def _credential_files(provider: Provider, path: Path, problems: Problems) -> None:
    if provider.google is not None and provider.google.credentials_file is not None:
        place = (*path, "google", "credentials_file")
        check_file(provider.google.credentials_file, place, problems)
    if provider.azure is not None and provider.azure.token_file is not None:
        check_file(provider.azure.token_file, (*path, "azure", "token_file"), problems)


def _oauth(
    provider: Provider, oauth: OAuth, path: Path, problems: Problems, defaults: Defaults | None
) -> None:
    place = (*path, "oauth")
    if provider.first_key and not problems.at((*path, "api_key")):
        problems.add(place, "conflicts with api_key; give one of them")
    if any(name.lower() == "authorization" for name in provider.headers):
        problems.add(place, "its token and headers.authorization are the same header; give one")
    if not oauth.client_secret and not problems.at((*place, "client_secret")):
        problems.add((*place, "client_secret"), "is empty")
    url = (*place, "token_url")
    if problems.at(url):
        return
    if oauth.token_url is not None:
        _url(oauth.token_url, url, problems)
    elif defaults is not None and not defaults.tokens:
        problems.add(
            url,
            "is missing; adapter ",
            Found(provider.adapter),
            " has no default token endpoint",
        )


def _needs(packages: tuple[str, ...], extra: str, path: Path, problems: Problems) -> None:
    missing = [name for name in packages if find_spec(name) is None]
    if missing and not problems.at(path):
        problems.add(
            path,
            f"needs the packages {' and '.join(packages)}; pip install 'strowger-gateway[{extra}]'",
        )


def _headers(provider: Provider, path: Path, problems: Problems) -> None:
    """Invalid names are not shown: they may be a value in the wrong place."""
    seen: set[str] = set()
    for position, (name, value) in enumerate(provider.headers.items()):
        place = (*path, "headers", name)
        lower = name.lower()
        if not _HEADER_NAME.fullmatch(name):
            problems.add(
                (*path, "headers"),
                f"entry {position + 1}: the name contains characters that header names cannot have",
            )
            continue
        if lower in _OURS:
            problems.add(place, "the gateway sets this header itself; remove it")
        if lower in seen:
            problems.add(place, "is given twice; header names are case-insensitive")
        seen.add(lower)
        if not problems.at(place):
            check_credential(value, place, problems)


def _url(url: str, path: Path, problems: Problems) -> None:
    """Check a URL. Messages never show it, because it may contain a password."""
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https"):
        problems.add(path, "expected http://HOST or https://HOST, optionally with port and path")
        return
    for fault in _url_faults(parts, url):
        problems.add(path, fault)


def _place_of_v1(
    provider: Provider, url: str, defaults: Defaults | None, path: Path, problems: Problems
) -> None:
    """Warn of a missing /v1: the server then returns 404, which looks like an unknown model."""
    openai = defaults is not None and defaults.base_url.endswith("/v1")
    if not (openai or provider.adapter in _V1) or problems.at(path):
        return
    if not urlsplit(url).path:
        problems.warn(path, "has no path; OpenAI-compatible servers usually use HOST/v1")


def _url_faults(parts: SplitResult, url: str) -> Iterator[str]:
    if parts.username is not None or parts.password is not None:
        yield "must not contain a user or a password; use api_key or headers"
    if parts.fragment or url.endswith(("?", "#")):
        yield "must not contain a fragment (#…) or an empty query (?)"
    if parts.path.endswith("/"):
        yield "must not end with a slash"
    if parts.path.endswith(_ONE_ROUTE):
        yield "ends with a route; give only the part before it"
    if re.search(r"[^\x21-\x7e]", url):
        yield "must be ASCII without spaces; write other characters as %XX"


def _split(url: str) -> SplitResult | None:
    """Split a URL; `None` if it has no host or an invalid port."""
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def _tls(tls: Tls, path: Path, problems: Problems) -> None:
    for name in ("ca_file", "client_cert", "client_key"):
        file: str | None = getattr(tls, name)
        if file is not None:
            check_file(file, (*path, name), problems)
    if tls.client_key is not None and tls.client_cert is None and not problems.under(path):
        problems.add((*path, "client_cert"), "is missing; client_key requires its certificate")
    if tls.ca_file is not None and not tls.verify and not problems.under(path):
        problems.add((*path, "ca_file"), "has no effect under verify: false; remove one of them")


def check_file(name: str, path: Path, problems: Problems) -> None:
    """Record a fault if a file or folder does not exist."""
    if not problems.at(path) and not FilePath(name).exists():
        problems.add(path, "no such file or folder: ", Found(name))
