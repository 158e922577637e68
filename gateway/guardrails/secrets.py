"""Secrets, by the formats that their issuers document."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from gateway.guardrails.patterns import Pattern, PatternHook

_REPLACEMENT: Final = "[secret]"

FORMATS: Final[Mapping[str, str]] = {
    # No repetition has an upper bound: an automaton that counts to it is slow on hostile texts.
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-unique-ids
    "aws_access_key_id": r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b",
    # https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-authentication-to-github
    "github_token": r"\bgh[pousr]_[A-Za-z0-9]{36,}\b",
    "github_fine_grained_token": r"\bgithub_pat_[A-Za-z0-9_]{36,}\b",
    # https://docs.gitlab.com/security/tokens/#token-prefixes
    "gitlab_token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    # https://docs.slack.dev/authentication/tokens
    "slack_token": r"\bxox[abp]-[A-Za-z0-9-]{10,}",
    # https://docs.stripe.com/keys
    "stripe_secret_key": r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}\b",
    # https://www.rfc-editor.org/rfc/rfc7468#section-10
    # Lines also as JSON text writes them, and an end that a stream has sent in part.
    "private_key": r"-----BEGIN (?:[A-Z0-9]+ )?PRIVATE KEY-----(?:[A-Za-z0-9+/=\s]|\\[nr])*"
    r"(?:-----END [A-Z0-9 ]{0,30}-{0,5}|-----(?:END|EN|E)?|-{1,4})?",
    # https://www.rfc-editor.org/rfc/rfc7519#section-3.1: two JSON objects in base64url, a signature
    # that a stream may not have sent yet.
    "jwt": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?",
}


class SecretSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """only: names of FORMATS; () for all."""

    only: tuple[str, ...] = ()


def secret_hook(settings: Mapping[str, object]) -> PatternHook:
    """The hook `secrets`. Raises ValueError, msgspec.ValidationError."""
    asked = msgspec.convert(settings, SecretSettings)
    unknown = [name for name in asked.only if name not in FORMATS]
    if unknown:
        known = ", ".join(FORMATS)
        raise ValueError(f"only: no format is named {unknown[0]!r}; known: {known}")
    names = asked.only or tuple(FORMATS)
    return PatternHook(
        [Pattern(name=name, regex=FORMATS[name], replacement=_REPLACEMENT) for name in names]
    )
