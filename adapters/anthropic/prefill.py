"""Which of Claude's models continue a final assistant turn; those from 4.6 on refuse it.

https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-6#prefill-removal
"""

import re

_CONTINUING = re.compile(
    r"claude-(2|instant|3-|(opus|sonnet|haiku)-4(-[015])?([@-](20\d{6}.*)?)?$)"
)
"""Names of Anthropic and of Vertex AI, which has dates after an `@`."""


def takes_prefill(model: str) -> bool:
    """Return whether the model, by name, continues the text of a final assistant turn."""
    return _CONTINUING.match(model) is not None
