"""What single models of Gemini do not take, by their names.

https://cloud.google.com/vertex-ai/generative-ai/docs/thinking
"""

import re
from collections.abc import Sequence
from typing import Final

from strowger_gateway.schemas.requests import ChatRequest

_VERSION: Final = re.compile(r"(?:.*/)?gemini-(\d+)(?:\.(\d+))?-(pro|flash)?", re.IGNORECASE)
_ALL: Final = ("minimal", "low", "medium", "high")
_PENALTIES: Final = ("presence_penalty", "frequency_penalty")


def efforts_of(model: str) -> Sequence[str] | None:
    """Return the degrees of effort that a model knows; () if it does not think, `None` if unknown.

    Up to 2.5, degrees are budgets of tokens, and only Pro always needs one.
    """
    found = _VERSION.match(model)
    if found is None:
        return None
    version, pro = (int(found[1]), int(found[2] or 0)), found[3] == "pro"
    if version < (2, 5):
        return ()
    if version < (3, 0):
        return _ALL if pro else ("none", *_ALL)
    if pro:
        return ("low", "high") if version < (3, 1) else _ALL[1:]
    return _ALL if version < (3, 7) else _ALL[1:]


def has_no_penalties(model: str) -> bool:
    """Return whether the model refuses penalties: 2.5 and later."""
    found = _VERSION.match(model)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= (2, 5)


def refused_sampling(_: ChatRequest, model: str) -> Sequence[str]:
    """Return the sampling parameters that a model refuses."""
    return _PENALTIES if has_no_penalties(model) else ()
