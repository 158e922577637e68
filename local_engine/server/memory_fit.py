"""Whether a model's weights can fit into the machine at all.

A process that takes more than there is on a CPU is killed by the system without a word, and again
after each restart.
"""

from pathlib import Path

import torch

from strowger_gateway.local_engine.device import total_bytes
from strowger_gateway.local_engine.loading.weight_files import read_weights
from strowger_gateway.schemas.errors import InvalidConfig


def refuse_too_large(path: str, device: str, dtype: torch.dtype) -> None:
    """path: a folder; nothing is known of a hub name. Raises InvalidConfig."""
    folder = Path(path)
    if not folder.is_dir():
        return
    needed = sum(tensor.count for tensor in read_weights(folder).values()) * dtype.itemsize
    total = total_bytes(device)
    if needed > total:
        raise InvalidConfig(
            (
                f"the model at {path} cannot be loaded: its weights take {needed / 1e9:.1f} GB in "
                f"{str(dtype).removeprefix('torch.')}, and {device} has {total / 1e9:.1f} GB; take "
                "a smaller model or more memory",
            )
        )
