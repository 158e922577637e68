"""Classify exceptions of a device: no memory, a broken device, or a refused call.

torch-npu raises RuntimeError for all three, with a number in the text. ERR00100 is on all of them
and decides nothing. Sources: 161002 and 561103 are refused calls
(https://github.com/sgl-project/sglang/issues/14159,
https://github.com/vllm-project/vllm-ascend/issues/4859); 507015 and 507035 are exceptions of a core
(https://github.com/vllm-project/vllm-ascend/issues/9554, https://github.com/Ascend/pytorch/issues/66);
507057 is another node's (https://github.com/vllm-project/vllm-ascend/issues/10829).
"""

import re
from typing import Final, Literal

import torch

REFUSALS: Final = (RuntimeError, TypeError, ValueError, AttributeError, IndexError)
"""Exceptions of a kernel that is missing or does not take its arguments."""

_MEMORY: Final = re.compile(r"out of memory|memory allocation|\b207001\b", re.IGNORECASE)
_DEVICE: Final = re.compile(
    r"error code is 507\d{3}|errcode[=:] ?507\d{3}|runtime result = 507\d{3}"
    r"|(?:aicore|ai core|vector core|aivector) (?:exception|error|execution is abnormal)",
    re.IGNORECASE,
)


def meaning(error: BaseException) -> Literal["memory", "device", "refusal"]:
    """Return what an exception of a computation on a device means.

    device: the device's state is lost, and no later call can succeed.
    """
    if isinstance(error, torch.AcceleratorError):
        return "device"
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return "memory"
    text = str(error)
    if _DEVICE.search(text):
        return "device"
    return "memory" if _MEMORY.search(text) else "refusal"


def first_line(error: BaseException) -> str:
    """Return the kind of an exception and the first line of its message."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"
