"""Repair rules of MindIE's chat."""

from typing import Final

from strowger_gateway.adapters.openai.repairs import server_repairs
from strowger_gateway.adapters.repairs.hints import IMAGE_DETAIL
from strowger_gateway.adapters.repairs.parallel_calls import parallel_calls
from strowger_gateway.adapters.repairs.roles import ONE_SYSTEM

_DOCS: Final = (
    "https://gitcode.com/Ascend/MindIE-Motor/tree/master/docs/zh/user_guide/"
    "service_oriented_interface"
)

MINDIE_REPAIRS: Final = server_repairs(*ONE_SYSTEM, IMAGE_DETAIL, *parallel_calls(_DOCS))
"""In the order in which they run."""
