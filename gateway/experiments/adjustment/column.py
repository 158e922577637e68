"""The field of a request that has its prompt's tokens."""

from strowger_gateway.gateway.parts.columns import Column
from strowger_gateway.gateway.storage.sql.request_observations import PROMPT_ATTRIBUTE

PROMPT = Column(
    name=PROMPT_ATTRIBUTE,
    kind=int,
    about="Estimated tokens of the prompt, where an experiment adjusts by them.",
)
