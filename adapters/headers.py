"""Headers of requests to backends."""

Headers = tuple[tuple[str, str], ...]


def accept(stream: bool) -> Headers:
    """Return the headers that name the format of the body and that of the answer."""
    kind = "text/event-stream" if stream else "application/json"
    return (("content-type", "application/json"), ("accept", kind))


def merged_headers(*groups: Headers) -> Headers:
    """Merge headers: later ones replace earlier ones of the same name, ignoring case."""
    merged = {name.lower(): value for group in groups for name, value in group}
    return tuple(merged.items())
