"""JSON mode at Bedrock, whose structured outputs require every member of an object in its schema.

Claude and Nova can be forced to call a function that takes any object. What other makers' models
can be forced to do differs, so they are asked in words.
https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html
"""

import re
from typing import Final

from strowger_gateway.adapters.model_limits.formats import described_json, json_by_tool

_FORCED: Final = re.compile(r"anthropic\.claude-|amazon\.nova-")
_SOURCE: Final = "https://github.com/veryfront/veryfront-code/issues/3918"


def _can_be_forced(model: str) -> bool:
    return _FORCED.search(model) is not None


JSON_MODE: Final = (
    json_by_tool(_SOURCE, _can_be_forced),
    described_json(_SOURCE, lambda model: not _can_be_forced(model)),
)
"""In the order in which they run."""
