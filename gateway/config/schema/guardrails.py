"""The shape of `guardrails` in config.yaml."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.limits import LimitWho
from strowger_gateway.gateway.config.schema.units import Name, Seconds
from strowger_gateway.schemas.secret import Secret


class HoldBack(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of a stream waits until no finding in it can grow.

    characters: the longest finding that is certainly masked whole.
    ms: of the backend's silence, after which waiting text is sent.
    """

    characters: Annotated[int, Meta(ge=1, le=4096)] = 128
    ms: Annotated[int, Meta(ge=1, le=60_000)] = 1000


class GuardrailConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hook that examines requests and answers.

    use: a built-in hook, or one of the entry point group `strowger.hooks`. settings: its own.
    where: input, output or both. mode: what a finding leads to. fail: if the hook fails.
    timeout_s: of one call of a hook that waits for a service. api_key: of that service; the hook
    gets it as a setting.
    """

    name: Name
    use: Name
    where: Literal["input", "output", "both"] = "both"
    who: LimitWho = LimitWho(any=True)
    models: tuple[Name, ...] = ("*",)
    mode: Literal["block", "mask", "monitor"] = "block"
    fail: Literal["open", "closed"] = "closed"
    timeout_s: Seconds = 2.0
    hold_back: HoldBack = HoldBack()
    api_key: Secret | None = None
    settings: dict[str, Any] = {}

    @property
    def each(self) -> None:
        """It has no account: see `strowger_gateway.gateway.governance.limits.scope.Scoped`."""
