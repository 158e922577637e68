"""Where the models that ship with the package lie."""

from pathlib import Path

from schemas.errors import InvalidConfig

_ROOT = Path(__file__).parent


def bundled_path(name: str) -> Path:
    """The folder of a bundled model, as `AutoModelForCausalLM.from_pretrained` wants it.

    Raises InvalidConfig, naming what there is, if no bundled model has that name.
    """
    available = bundled_names()
    if name not in available:
        raise InvalidConfig(
            (f"No bundled model is called {name!r}; there are {', '.join(available)}.",)
        )
    return _ROOT / name


def bundled_names() -> tuple[str, ...]:
    """The names that `bundled_path` accepts, sorted."""
    return tuple(sorted(config.parent.name for config in _ROOT.glob("*/config.json")))
