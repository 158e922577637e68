"""What is recorded of a request that gets a prompt."""

from typing import Final

from strowger_gateway.gateway.parts.columns import Column

PROMPT: Final = Column(
    name="prompt",
    kind=str,
    about="The prompt that the request was answered with, as NAME@VERSION.",
)
DIGEST: Final = Column(
    name="prompt_digest",
    kind=str,
    about="The digest of that version's text, in which two texts of one version differ.",
)
