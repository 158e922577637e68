"""Repair rules of TGI's chat."""

from typing import Final

from strowger_gateway.adapters.openai.repairs import server_repairs
from strowger_gateway.adapters.repairs.parallel_calls import parallel_calls
from strowger_gateway.adapters.repairs.roles import ONE_SYSTEM

_ROUTER: Final = (
    "https://github.com/huggingface/text-generation-inference/blob/main/router/src/lib.rs"
)

TGI_REPAIRS: Final = server_repairs(*ONE_SYSTEM, *parallel_calls(_ROUTER))
"""In the order in which they run."""
