"""Repair rules of MindIE's chat."""

from typing import Final

from adapters.openai.repairs import SERVER_REPAIRS
from adapters.repairs.hints import IMAGE_DETAIL
from adapters.repairs.parallel_calls import parallel_calls

_DOCS: Final = (
    "https://gitcode.com/Ascend/MindIE-Motor/tree/master/docs/zh/user_guide/"
    "service_oriented_interface"
)

MINDIE_REPAIRS: Final = (*SERVER_REPAIRS, IMAGE_DETAIL, *parallel_calls(_DOCS))
"""In the order in which they run."""
