"""The programs in Triton, run by its interpreter on a CPU where it is installed.

The interpreter runs the programs' arithmetic but not the compiler, and multiplies matrices of
bfloat16 wrongly (their bits are integers to it), so float16 stands for both.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")

PROGRAM = """
import json, sys
import torch
from strowger_gateway.local_engine.ops.cuda_offers import decode_pairs, triton_attention
from strowger_gateway.local_engine.ops.self_test import Shape, problem_of, run_trials
from strowger_gateway.local_engine.ops.triton_layers import layer_offers

shape = Shape(**json.loads(sys.argv[1]))
print(problem_of(lambda: decode_pairs(triton_attention(), shape, torch.float16, "cpu")))
for trial in run_trials(layer_offers(shape, torch.float16, "cpu")):
    print(trial.problem)
"""


@pytest.mark.parametrize(("heads", "kv_heads", "width"), [(4, 2, 8), (6, 2, 96), (20, 1, 64)])
def test_the_programs_agree_with_torch(heads: int, kv_heads: int, width: int) -> None:
    """A process of its own, because Triton decides at its import whether to interpret."""
    shape = {"heads": heads, "kv_heads": kv_heads, "width": width, "hidden": 100}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(shape)],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )

    if "only 0-dimensional arrays" in done.stdout:
        pytest.skip("this Triton's interpreter does not run with this numpy")
    assert done.stdout.strip() == ""
