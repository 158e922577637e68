"""Configurations of other programs, by keys that only they have at the top."""

from collections.abc import Collection
from typing import Final

from msgspec import Struct


class Stranger(Struct, frozen=True, kw_only=True):
    """key: by which the file is recognised. remedy: the message about it."""

    key: str
    remedy: str


_LITELLM: Final = (
    "is a key of LiteLLM; `strowger import litellm FILE` translates such a file, and lists what "
    "it cannot translate"
)
_KUBERNETES: Final = (
    "is a key of a Kubernetes manifest; give the file that its ConfigMap holds (deploy.md)"
)
_COMPOSE: Final = "is a key of a Compose file; give the gateway's own config.yaml"
_STRANGERS: Final = {
    "model_list": _LITELLM,
    "litellm_settings": _LITELLM,
    "router_settings": _LITELLM,
    "general_settings": _LITELLM,
    "apiVersion": _KUBERNETES,
    "services": _COMPOSE,
}
_OWN: Final = ("providers", "models")


def named_by(keys: Collection[str]) -> Stranger | None:
    """Return which program's file it is; `None` for one of ours, or with keys of ours."""
    if any(own in keys for own in _OWN):
        return None
    found = next((key for key in _STRANGERS if key in keys), None)
    return None if found is None else Stranger(key=found, remedy=_STRANGERS[found])
