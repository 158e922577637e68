"""The module torch_npu for a process whose path has this folder; importing it starts the device."""

from tests.local_engine.stand_ins.npu_device import start
from tests.local_engine.stand_ins.npu_stand_in import torch_npu

start()
vendor = torch_npu()
globals().update({name: getattr(vendor, name) for name in vendor.calls if "." not in name})


def npu_fusion_attention(*_: object, **__: object) -> object:
    """Of training, which transformers imports; the engine must never call it."""
    raise RuntimeError("npu_fusion_attention is not for inference")
