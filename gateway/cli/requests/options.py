"""The options of all commands below `strowger requests`, and the gateway that they ask."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar, cast
from urllib.parse import urlencode

import click
import msgspec
from msgspec import Struct

from strowger_gateway.gateway.cli.address import Address, address_of, url_option
from strowger_gateway.gateway.cli.config_loading import config_option, load
from strowger_gateway.gateway.cli.http_client import admin_key_option
from strowger_gateway.gateway.config.schema.connection import Tls
from strowger_gateway.gateway.console.admin.request_log.parameters import FilterParameters

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])


class AskedGateway(Struct, frozen=True, kw_only=True):
    """A gateway, and the operator's key for it."""

    address: Address
    key: str


def gateway_options(
    command: Callable[Concatenate[AskedGateway, P], R],
) -> Callable[..., R]:
    """`--url`, `--admin-key` and `--config`, as the parameter `asked`."""

    def called(
        address: Address | None,
        tls: Tls,
        admin_key: str,
        path: Path,
        *args: P.args,
        **more: P.kwargs,
    ) -> R:
        if address is None:
            config = load(path)
            address = address_of(config, tls)
            admin_key = admin_key or config.auth.admin_key.reveal()
        return command(AskedGateway(address=address, key=admin_key), *args, **more)

    called.__doc__, called.__name__ = command.__doc__, command.__name__
    called.__dict__.update(command.__dict__)
    words = "Address of the gateway; default: where one with this configuration listens."
    return url_option(words)(admin_key_option(config_option(called)))


def filter_options(command: F) -> F:
    """An option for each filter, `--end-user` for `end_user`."""
    for name, about in reversed(_about().items()):
        option = click.option(f"--{name.replace('_', '-')}", name, default="", help=about)
        command = option(command)
    return command


def target(path: str, given: Mapping[str, str]) -> str:
    """Return a path of the API with those parameters that are given."""
    query = urlencode([(name, value) for name, value in given.items() if value])
    return f"{path}?{query}" if query else path


def _about() -> dict[str, str]:
    """Return the sentence about each filter, as in the API's description."""
    schema = msgspec.json.schema(FilterParameters)
    fields = schema["$defs"]["FilterParameters"]["properties"]
    found = cast("Mapping[str, Mapping[str, str]]", fields)
    about = {name: one["description"].replace("`", "") for name, one in found.items()}
    return {name: f"{text[0].upper()}{text[1:]}." for name, text in about.items()}
