"""Read a summary from a model's answer, and find out what it lacks."""

import re
from typing import Final

from strowger_gateway.schemas.answers import Answer
from strowger_gateway.schemas.errors import UpstreamBroken

NOT_COMPACTED: Final = "not_compacted"
"""A conversation beyond its threshold that no backend has a summary of, as repairs are named."""

CUT_OFF: Final = "\n\n[The summary ends here, because it reached the model's limit of length.]"
"""After a summary that a limit has cut off, for the model that goes on."""

_THOUGHTS: Final = re.compile(r"\s*<think>.*?(</think>|\Z)", re.DOTALL)
"""Of a model whose server does not separate its reasoning from its text."""


def summary_in(answer: Answer) -> str:
    """Return the text of an answer without reasoning.

    "" if the model has written none, or a filter of its vendor's has stopped it.
    """
    if not answer.choices:
        return ""
    choice = answer.choices[0]
    if choice.finish is not None and choice.finish.reason == "content_filter":
        return ""
    text = _THOUGHTS.sub("", choice.text or "", count=1).strip()
    return text + CUT_OFF if text and is_cut(answer) else text


def is_cut(answer: Answer) -> bool:
    """Return whether a limit of length has ended the answer."""
    finish = answer.choices[0].finish if answer.choices else None
    return finish is not None and finish.reason == "length"


def no_summary(backend: str) -> UpstreamBroken:
    """Return the failure of a backend whose answer is not a summary."""
    return UpstreamBroken("answered a request for a summary without text", upstream=backend)
