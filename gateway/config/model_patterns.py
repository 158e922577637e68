"""Lists of models in rules: names, aliases, and wildcards that end in an asterisk."""

from collections.abc import Iterable


def covers(patterns: Iterable[str], *names: str) -> bool:
    """Whether a list of models, aliases and wildcards has one of the names."""
    return any(
        pattern in names
        or (pattern.endswith("*") and any(name.startswith(pattern[:-1]) for name in names))
        for pattern in patterns
    )


def overlap(one: str, other: str) -> bool:
    """True if two names, each of which may end in `*`, can match the same name."""
    if one.endswith("*") and other.endswith("*"):
        return one.startswith(other[:-1]) or other.startswith(one[:-1])
    if one.endswith("*"):
        return other.startswith(one[:-1])
    return one.startswith(other[:-1]) if other.endswith("*") else one == other
