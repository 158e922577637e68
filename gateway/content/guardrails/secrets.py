"""Secrets, by the formats that their issuers document."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.content.guardrails.patterns import Pattern, PatternHook

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
    # Our own: docs/keys.md.
    "strowger_key": r"\bsk-strw-[0-9A-Za-z]{49}\b",
    # Keys of the vendors of models. Prefixes and lengths are those of the vendors' documentation or
    # of keys that public scanners know; each needs more characters than a word or a name has.
    # https://platform.openai.com/docs/api-reference/authentication; in the middle of all keys is
    # "OpenAI" in base64.
    "openai_key": r"\bsk-(?:[A-Za-z0-9]+-)?[A-Za-z0-9_-]{20,}T3BlbkFJ[A-Za-z0-9_-]{20,}",
    # https://docs.anthropic.com/en/api/admin-api/apikeys/get-api-key: keys of workspaces, of admins
    # and of sign-ins
    "anthropic_key": r"\bsk-ant-[a-z]+[0-9]{2}-[A-Za-z0-9_-]{40,}",
    # https://openrouter.ai/docs/api-reference/authentication
    "openrouter_key": r"\bsk-or-v1-[0-9a-f]{64}\b",
    # DeepSeek, DashScope, Moonshot, SiliconFlow and others: `sk-` and a run of letters and digits.
    "sk_key": r"\bsk-[A-Za-z0-9]{32,}\b",
    # https://cloud.google.com/docs/authentication/api-keys
    "google_api_key": r"\bAIza[A-Za-z0-9_-]{35,}",
    # https://huggingface.co/docs/hub/security-tokens
    "huggingface_token": r"\b(?:hf|api_org)_[A-Za-z]{34,}\b",
    # https://console.groq.com/docs/quickstart
    "groq_key": r"\bgsk_[A-Za-z0-9]{48,}\b",
    # https://docs.x.ai/docs/tutorial
    "xai_key": r"\bxai-[A-Za-z0-9]{70,}\b",
    # https://docs.perplexity.ai/guides/api-key-management
    "perplexity_key": r"\bpplx-[A-Za-z0-9]{40,}\b",
    # https://replicate.com/docs/topics/security/api-tokens
    "replicate_token": r"\br8_[A-Za-z0-9]{37,}\b",
    # The quickstarts of https://docs.cerebras.ai, https://docs.together.ai and
    # https://docs.fireworks.ai
    "cerebras_key": r"\bcsk-[a-z0-9]{40,}\b",
    "together_key": r"\btgp_v1_[A-Za-z0-9_-]{40,}",
    "fireworks_key": r"\bfw_[A-Za-z0-9]{22,}\b",
    # https://docs.api.nvidia.com/nim/docs/api-quickstart
    "nvidia_key": r"\bnvapi-[A-Za-z0-9_-]{60,}",
    # https://docs.databricks.com/aws/en/dev-tools/auth/pat
    "databricks_token": r"\bdapi[0-9a-f]{32}\b",
    # https://docs.aws.amazon.com/bedrock/latest/userguide/api-keys.html: `BedrockAPIKey-` and the
    # beginning of the address that is signed, in base64
    "bedrock_key": r"\b(?:ABSKQmVkcm9ja0FQSUtleS|bedrock-api-key-YmVkcm9jay)"
    r"[A-Za-z0-9+/]{30,}={0,2}",
    # https://learn.microsoft.com/en-us/purview/sit-defn-azure-cognitive-services-key: identifiable
    # keys of 84 characters
    "azure_ai_key": r"\b[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{10}AC[A-Za-z0-9]{2}[A-Za-z0-9]{12}\b",
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
