"""Lists of models in rules: names, aliases, and wildcards that end in an asterisk."""

from collections.abc import Iterable


def covers(patterns: Iterable[str], *names: str) -> bool:
    """Whether a list of models, aliases and wildcards has one of the names."""
    return any(
        pattern in names
        or (pattern.endswith("*") and any(name.startswith(pattern[:-1]) for name in names))
        for pattern in patterns
    )
