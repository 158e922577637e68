"""The guardrails of a configuration, live. Without any, no hook is imported."""

from collections.abc import Collection
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.content.guardrails.moderating import moderated_here
from strowger_gateway.schemas.errors import InvalidConfig

if TYPE_CHECKING:
    from strowger_gateway.gateway.config.schema.guardrails import GuardrailConfig
    from strowger_gateway.gateway.content.hooks.contract import AsyncHook, Hook, HookFactory
    from strowger_gateway.gateway.content.hooks.guarded_request import Guards

BUILT_IN: Final = ("patterns", "secrets", "sizes")
SERVICES: Final = ("judge", "moderation", "presidio")


def guards_of(config: Config) -> "Guards | None":
    """Return the guardrails; `None` without any. Raises InvalidConfig."""
    if not config.guardrails:
        return None
    names = [one.name for one in config.guardrails]
    return guards_named(config, names, moderated_here(config))


def guards_named(
    config: Config, names: Collection[str], exempt: frozenset[str] = frozenset()
) -> "Guards":
    """Return those of these names. exempt: see Guards. Raises InvalidConfig."""
    from strowger_gateway.gateway.content.hooks.guarded_request import (
        Guards,  # late: only with guardrails
    )

    problems: list[str] = []
    hooks: dict[str, Hook | AsyncHook] = {}
    for index, one in enumerate(config.guardrails):
        place = f"guardrails[{index}]"
        if one.name not in names:
            continue
        try:
            hooks[one.name] = _hook(one, place)
        except InvalidConfig as exc:
            problems += exc.problems
    if problems:
        raise InvalidConfig(tuple(problems))
    return Guards(hooks, [one for one in config.guardrails if one.name in hooks], exempt)


def _hook(guardrail: "GuardrailConfig", place: str) -> "Hook | AsyncHook":
    """Make a hook; another package's code may raise anything. Raises InvalidConfig."""
    key = guardrail.api_key
    settings = {**guardrail.settings, **({} if key is None else {"api_key": key.reveal()})}
    failed = f"{place}.use: the hook {guardrail.use!r} cannot be used"
    try:
        hook = _factory(guardrail, place)(settings)
    except InvalidConfig:
        raise
    except ValueError as exc:  # msgspec.ValidationError is one, too
        raise InvalidConfig((f"{place}.settings: {exc}",)) from exc
    except KeyboardInterrupt:
        raise
    except BaseException as exc:
        raise InvalidConfig((f"{failed}: {type(exc).__name__}: {exc}",)) from exc
    for method in ("before", "chunk", "after"):
        if not callable(getattr(hook, method, None)):
            raise InvalidConfig((f"{failed}: {type(hook).__name__} has no method {method!r}",))
    return hook


def _factory(guardrail: "GuardrailConfig", place: str) -> "HookFactory":
    if guardrail.use in BUILT_IN:
        try:
            from strowger_gateway.gateway.content.guardrails import built_in
        except ModuleNotFoundError as exc:
            raise InvalidConfig(
                (
                    f"{place}.use: {guardrail.use!r} needs the package {exc.name!r}; "
                    "pip install 'strowger-gateway[guardrails]'",
                )
            ) from None
        return built_in.FACTORIES[guardrail.use]
    if guardrail.use in SERVICES:
        from strowger_gateway.gateway.content.guardrails import (
            services,  # late: only with guardrails that ask one
        )

        return services.FACTORIES[guardrail.use]
    found = entry_points(group="strowger.hooks", name=guardrail.use)
    if not found:
        known = ", ".join((*BUILT_IN, *SERVICES, *entry_points(group="strowger.hooks").names))
        raise InvalidConfig((f"{place}.use: no hook is named {guardrail.use!r}; known: {known}",))
    return next(iter(found)).load()
