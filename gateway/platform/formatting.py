"""Format numbers for people; `–` if there is no value."""

NONE = "–"


def number(value: float | None) -> str:
    """Three significant digits: 0, 0.12, 4.5, 123, 12,300."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    digits = f"{value:.1f}" if size >= 10 else f"{value:.2f}"
    return digits.rstrip("0").rstrip(".")


def count(value: int) -> str:
    return f"{value:,}"


def ms(value: float | None) -> str:
    """Milliseconds, or seconds or minutes if long."""
    if value is None:
        return NONE
    if value < 1000:
        return f"{number(value)} ms"
    return f"{number(value / 1000)} s" if value < 100_000 else f"{value / 60_000:.0f} min"


def share(part: float, whole: float) -> str:
    """A share in per cent; a small one is not rounded to 0."""
    if not whole:
        return NONE
    per_cent = 100 * part / whole
    return "< 0.1 %" if 0 < per_cent < 0.1 else f"{number(round(per_cent, 1))} %"


def span(seconds: float) -> str:
    """A duration in its one or two largest units: 12 s, 4 min, 2 h 10 min, 3 d 4 h."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    if whole < 172_800:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"
