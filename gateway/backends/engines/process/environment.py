"""The environment variables that an engine process inherits: those its libraries read, no secrets.

The environment of the gateway often contains API keys, because the configuration reads them from
there. An engine needs none of them.
"""

from collections.abc import Mapping

from strowger_gateway.local_engine.child_process.interpreter import import_path

ONEDNN_KERNELS = "256"
"""Kernels that oneDNN caches, about half a megabyte each; those in use stay in the cache."""

NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM"),
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_PREFIX", "CC", "CXX"),
        *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NO_PROXY", "no_proxy"),
        *("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"),
    }
)
"""Variables that pass by name; proxies are needed for downloads from the Hugging Face hub."""

PREFIXES = (
    *("LC_", "XDG_", "PYTHON", "SSL_CERT_", "MALLOC_", "JEMALLOC_"),
    *("TORCH", "PYTORCH_", "TRITON_", "HF_", "HUGGINGFACE_", "TRANSFORMERS_", "TOKENIZERS_"),
    *("CUDA_", "CUDNN_", "CUBLAS_", "NVIDIA_", "NCCL_"),
    *("ASCEND", "ATB_", "HCCL_", "NPU_", "ACL_", "ASDOPS_", "TASK_QUEUE_", "COMBINED_ENABLE"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "ONEDNN_", "DNNL_", "NUMEXPR_"),
)
"""Prefixes of variables that torch, CUDA, CANN, maths libraries, transformers and Python read."""

SECRETS = ("_TOKEN", "_KEY", "_SECRET", "_PASSWORD")
"""Suffixes of names that never pass, unless the configuration names them."""


def passes(name: str, also: frozenset[str] = frozenset()) -> bool:
    """True if an engine inherits the variable of this name. also: `engine.environment`."""
    if name in also or name in NAMES:
        return True
    return name.startswith(PREFIXES) and not name.upper().endswith(SECRETS)


def engine_environment(
    environment: Mapping[str, str], also: tuple[str, ...] = ()
) -> dict[str, str]:
    """Build the environment of an engine process.

    environment: ours. also: names that the operator passes on in addition to the known ones.

    Its PYTHONPATH leads to the modules that we use, and its tokenizers have no threads. By default
    oneDNN caches 1,024 kernels, one for each size that a step has had; fewer are enough.
    """
    wanted = frozenset(also)
    return {
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY": ONEDNN_KERNELS,
        **{name: value for name, value in environment.items() if passes(name, wanted)},
        "PYTHONPATH": import_path(),
        "TOKENIZERS_PARALLELISM": "false",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
