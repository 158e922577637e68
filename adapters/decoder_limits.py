"""How much of an answer a decoder remembers at most.

Decoders keep state for each choice, tool call and block of an answer until it ends. A server that
opens ever new ones would fill the gateway's memory; beyond these numbers, which no real answer
comes near, the answer counts as broken.
"""

from collections.abc import Sized
from typing import Final

from schemas.errors import UpstreamBroken

CHOICES: Final = 8
"""Choices where fewer were asked for: some servers number them as they like."""
TOOLS: Final = 1024
"""Tool calls of one choice."""
BLOCKS: Final = 4096
"""Blocks of content or thinking."""
NOTES: Final = 16_384
"""Citations, images and the like that come along at the end."""


def check_room(kept: Sized, most: int, what: str, upstream: str) -> None:
    """For one more of `what`. Raises UpstreamBroken where `kept` has `most` of them."""
    if len(kept) >= most:
        raise UpstreamBroken(f"the answer has over {most} {what}", upstream=upstream)
