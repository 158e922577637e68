"""What `courtesy` in config.yaml may say, and what is recorded."""

from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.config.schema.units import Count, Name
from strowger_gateway.gateway.parts.columns import Column

MOOD: Final = Column(name="mood", kind=str, about="Whether the request is rude or calm.")


class Courtesy(Struct, frozen=True, kw_only=True):
    """rude: words that a polite request does without. most: rude requests that are answered."""

    rude: tuple[Name, ...]
    most: Count = 3


class Rude(Struct, frozen=True, tag=True):
    """To the leader: a request was rude."""


class HowRude(Struct, frozen=True, tag=True):
    """A question to the leader."""


class Rudeness(Struct, frozen=True, tag=True):
    """To processes, and the answer to HowRude. rude: requests of all of them."""

    rude: int = 0
