"""`providers[].aws`: the region's address, request signing, and the checks."""

import re
from importlib.util import find_spec
from urllib.parse import urlsplit

from strowger_gateway.gateway.config.problems import Found, Path, Problems
from strowger_gateway.gateway.config.schema.config import Provider
from strowger_gateway.gateway.config.schema.connection import Aws

BEDROCK = "bedrock"
"""The only adapter for AWS."""

SIGNER = "botocore"
"""The package that signs requests; the extra `bedrock` installs it."""

_REGION = re.compile(r"[a-z]{2,3}(-[a-z]+)+-[0-9]{1,2}")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[\x21-\x7e]+")
_IN_HOST = re.compile(r"(?:^|\.)bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.")


def aws_base_url(provider: Provider) -> str:
    """The base URL of the region; "" without a region."""
    region = provider.aws.region if provider.aws is not None else None
    if region is None:
        return ""
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://bedrock-runtime.{region}.{domain}"


def aws_region(aws: Aws, base_url: str) -> str:
    """The region for signatures; "" if it is neither given nor in the address."""
    if aws.region is not None:
        return aws.region
    found = _IN_HOST.search(urlsplit(base_url).hostname or "")
    return found[1] if found else ""


def signs(provider: Provider) -> bool:
    """True if requests carry a signature and not an API key."""
    return provider.aws is not None and not provider.first_key


def check_aws(provider: Provider, aws: Aws, path: Path, problems: Problems) -> None:
    """path: the provider's."""
    place = (*path, "aws")
    if provider.adapter != BEDROCK:
        problems.add(place, "requires adapter bedrock, found ", Found(provider.adapter))
        return
    if aws.external_id is not None and aws.role_arn is None:
        problems.add((*place, "external_id"), "requires role_arn; remove it")
    if aws.role_arn is not None and not _ROLE.fullmatch(aws.role_arn):
        problems.add(
            (*place, "role_arn"),
            Found(aws.role_arn),
            " is not a role; write arn:aws:iam::ACCOUNT:role/NAME",
        )
    if aws.region is not None and not _REGION.fullmatch(aws.region):
        problems.add((*place, "region"), Found(aws.region), " is not a region, such as eu-west-1")
    if provider.oauth is not None:
        problems.add(place, "conflicts with oauth; give one of them")
    keys = bool(aws.access_key_id or aws.secret_access_key or aws.session_token)
    if provider.first_key:
        if keys or aws.profile is not None or aws.role_arn is not None:
            problems.add(place, "its keys conflict with api_key; give one of them")
        return
    if any(name.lower() == "authorization" for name in provider.headers):
        problems.add(place, "its signature and headers.authorization are the same header; give one")
    _keys(aws, place, problems, given=keys)
    base_url = provider.base_url or aws_base_url(provider)
    if base_url and not aws_region(aws, base_url) and not problems.at((*path, "base_url")):
        problems.add((*place, "region"), "is missing, and base_url does not contain it")
    if find_spec(SIGNER) is None:
        problems.add(place, f"needs the package {SIGNER}; pip install 'strowger-gateway[bedrock]'")


def _keys(aws: Aws, place: Path, problems: Problems, *, given: bool) -> None:
    if not given:
        return
    for name, value in (
        ("access_key_id", aws.access_key_id),
        ("secret_access_key", aws.secret_access_key),
    ):
        if not value and not problems.at((*place, name)):
            problems.add(
                (*place, name), "is missing; give both access_key_id and secret_access_key"
            )
    if aws.profile is not None:
        problems.add(
            (*place, "profile"),
            "conflicts with access_key_id and secret_access_key; give one of them",
        )
