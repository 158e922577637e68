"""What to write in place of a number with a unit: hints for `30s`, `20MB` and `10k`."""

import re
from typing import Final

_TIME: Final = re.compile(
    r"([0-9]+(?:\.[0-9]+)?) ?(ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?)",
    re.IGNORECASE,
)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kmg])(?:i?b?)", re.IGNORECASE)
_COUNT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([km])", re.IGNORECASE)
_THOUSANDS: Final = {"k": 1_000, "m": 1_000_000}
_GROUPED: Final = re.compile(r"[0-9]{1,3}([,' ][0-9]{3})+")
_PER_CENT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%")
_QUOTED: Final = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?")


def hint(text: str, field: str, *, size: bool, number: bool) -> str:
    """Return the end of a sentence, such as `; write 30`; "" if the text is nothing of the kind.

    text: as found. field: its name: those that end in `_s` are seconds, in `_ms` milliseconds.
    size: the field takes one. number: it takes a number.
    """
    if size and (found := _SIZE.fullmatch(text)):
        return f"; write {found[1]}{found[2].upper()}iB"
    if not number:
        return ""
    if (found := _TIME.fullmatch(text)) and field.endswith(("_s", "_ms")):
        unit = "ms" if found[2].lower() == "ms" else found[2][0].lower()
        value = float(found[1]) * _SECONDS[unit] * (1000.0 if field.endswith("_ms") else 1.0)
        what = "milliseconds" if field.endswith("_ms") else "seconds"
        return f"; write {value:g}, in {what}"
    if found := _COUNT.fullmatch(text):
        return f"; write {float(found[1]) * _THOUSANDS[found[2].lower()]:.0f}"
    if _GROUPED.fullmatch(text):
        return f"; write {re.sub('[^0-9]', '', text)}"
    if found := _PER_CENT.fullmatch(text):
        return f"; write {float(found[1]) / 100:g}"
    return f"; write {text}, without quotes" if _QUOTED.fullmatch(text) else ""
