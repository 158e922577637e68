"""Locate the models that ship with the package."""

from pathlib import Path

from strowger_gateway.schemas.errors import InvalidConfig

_ROOT = Path(__file__).parent


def bundled_path(name: str) -> Path:
    """Return a bundled model's folder, for `AutoModelForCausalLM.from_pretrained`.

    Raises InvalidConfig with the available names if there is no such model.
    """
    available = bundled_names()
    if name not in available:
        raise InvalidConfig(
            (f"bundled model {name!r} not found; use one of {', '.join(available)}",)
        )
    return _ROOT / name


def bundled_names() -> tuple[str, ...]:
    """Return the names that `bundled_path` accepts, sorted."""
    return tuple(sorted(config.parent.name for config in _ROOT.glob("*/config.json")))
