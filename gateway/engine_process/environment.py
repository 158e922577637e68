"""What an engine process gets of the gateway's environment: what its libraries read, no secrets.

The environment of the gateway often holds its keys, because the configuration reads them from
there. An engine needs none of them.
"""

import os
from collections.abc import Mapping
from pathlib import Path

ONEDNN_KERNELS = "256"
"""About half a megabyte each; what is hot stays."""

NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM"),
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_PREFIX", "CC", "CXX"),
        *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NO_PROXY", "no_proxy"),
        *("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"),
    }
)
"""Proxies are there for downloads from the Hugging Face hub."""

PREFIXES = (
    *("LC_", "XDG_", "PYTHON", "SSL_CERT_", "MALLOC_", "JEMALLOC_"),
    *("TORCH", "PYTORCH_", "TRITON_", "HF_", "HUGGINGFACE_", "TRANSFORMERS_", "TOKENIZERS_"),
    *("CUDA_", "CUDNN_", "CUBLAS_", "NVIDIA_", "NCCL_"),
    *("ASCEND", "ATB_", "HCCL_", "NPU_", "ACL_", "ASDOPS_", "TASK_QUEUE_", "COMBINED_ENABLE"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "ONEDNN_", "DNNL_", "NUMEXPR_"),
)
"""Of what torch, CUDA, CANN, the maths libraries, transformers and Python itself read."""

SECRETS = ("_TOKEN", "_KEY", "_SECRET", "_PASSWORD")
"""Endings of names that never pass, unless the configuration names them."""


def passes(name: str, also: frozenset[str] = frozenset()) -> bool:
    """Whether an engine gets the variable of this name. also: `engine.environment`."""
    if name in also or name in NAMES:
        return True
    return name.startswith(PREFIXES) and not name.upper().endswith(SECRETS)


def engine_environment(
    environment: Mapping[str, str], also: tuple[str, ...] = ()
) -> dict[str, str]:
    """environment: ours. also: names that the operator passes on beside the known ones.

    Adds the packages' folder to the path, and leaves no threads behind the tokenizers.
    oneDNN keeps 1,024 kernels, one for every size that a step has had; fewer are enough.
    """
    root = str(Path(__file__).resolve().parent.parent.parent)
    inherited = environment.get("PYTHONPATH")
    wanted = frozenset(also)
    return {
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY": ONEDNN_KERNELS,
        **{name: value for name, value in environment.items() if passes(name, wanted)},
        "PYTHONPATH": root if not inherited else os.pathsep.join((root, inherited)),
        "TOKENIZERS_PARALLELISM": "false",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
