"""Limits on the state that a decoder keeps per answer.

Decoders keep state for each choice, tool call and block of an answer until it ends. A server that
keeps opening new ones would fill the gateway's memory; above these numbers, which no real answer
comes near, the answer is treated as broken.
"""

from typing import Final

from strowger_gateway.schemas.errors import UpstreamBroken

CHOICES: Final = 8
"""Choices if fewer were requested: some servers number them arbitrarily."""
TOOLS: Final = 1024
"""Tool calls of one choice."""
BLOCKS: Final = 4096
"""Blocks of content or reasoning."""
NOTES: Final = 16_384
"""Citations, images and similar objects that are sent at the end."""


def overfull(most: int, what: str, upstream: str) -> UpstreamBroken:
    """Return the error of an answer with one more than `most`.

    A request may have caused that, so that no circuit breaker counts it.
    """
    error = UpstreamBroken(f"the answer has over {most} {what}", upstream=upstream)
    error.counts = False
    return error
