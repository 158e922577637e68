"""torch-npu's sampling operator; used for rows that it draws like our own sampler.

aclnnTopKTopPSample has two versions; the engine detects the installed one by calling it. Version 1
takes two-byte logits and flattens the distribution of a row that only top-p cuts, so it never gets
such a row. https://gitcode.com/Ascend/op-plugin, torch_npu-npu_top_k_top_p_sample.md
"""

import re
from collections.abc import Callable
from enum import Enum
from typing import Protocol

import torch
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.ops.device_faults import REFUSALS
from strowger_gateway.local_engine.sampling.sampling_params import GREEDY_BELOW, RowParams
from strowger_gateway.local_engine.sampling.top_k_top_p_operator import K_MAX

NAME = "npu_top_k_top_p_sample"

WITHOUT_OPERATOR = re.compile(r"Ascend(310|910A|910B$|910Pro|910Premium|910$)")
"""SoC names of the products that the operator's documents exclude: Atlas 200I/500 A2 (310B), the
inference series (310, 310P), the training series (910A, 910B, 910ProA …). Atlas A2 is 910B1 … 910B4
and A3 is 910_93xx."""

LOWEST = -65_504.0
"""The smallest finite float16."""


LOWEST_PEAK = -60.0
"""Below about -88 exp underflows in float32."""


class Version(Enum):
    """Version of the operator. NONE: the product or the installation has no working one."""

    NONE = "none"
    V1 = "aclnnTopKTopPSample"
    V2 = "aclnnTopKTopPSampleV2"


class SamplingNPU(Protocol):
    """The operator, as torch_npu registers it."""

    def npu_top_k_top_p_sample(
        self,
        logits: Tensor,
        top_k: Tensor,
        top_p: Tensor,
        q: Tensor | None,
        /,
        *,
        eps: float,
        is_need_logits: bool,
        top_k_guess: int,
    ) -> tuple[Tensor, Tensor]: ...


class Probe(Struct, frozen=True, kw_only=True):
    """problem: why no better version works, "" for V2."""

    version: Version
    problem: str


def has_operator(soc: str) -> bool:
    """Return True if the product may have the operator. soc: from torch.npu.get_device_name.

    Products newer than the table return True, so that the operator is probed.
    """
    return WITHOUT_OPERATOR.match(soc) is None


def probe_operator(vendor: SamplingNPU, soc: str, device: str) -> Probe:
    """Call the operator in float32, which only version 2 takes, then in float16."""
    if not has_operator(soc):
        return Probe(version=Version.NONE, problem=f"{soc} has no {NAME}")
    problems: list[str] = []
    for version, dtype in ((Version.V2, torch.float32), (Version.V1, torch.float16)):
        problem = _problem(vendor, dtype, device)
        if not problem:
            return Probe(version=version, problem="; ".join(problems))
        problems.append(f"{version.value}: {problem}")
    return Probe(version=Version.NONE, problem="; ".join(problems))


def _problem(vendor: SamplingNPU, dtype: torch.dtype, device: str) -> str:
    """Draw from [1, 8] logits, k 3, p 0.6; only noise applied by rank gives token 3."""
    shares = torch.tensor([[0.05, 0.40, 0.10, 0.25, 0.15, 0.05, 1e-4, 1e-4]])
    noise = torch.tensor([[2.0, 0.1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]], device=device)
    try:
        ids, _ = vendor.npu_top_k_top_p_sample(
            shares.log().to(device=device, dtype=dtype),
            torch.tensor([3], dtype=torch.int32, device=device),
            torch.tensor([0.6], dtype=dtype, device=device),
            noise,
            eps=1e-8,
            is_need_logits=False,
            top_k_guess=32,
        )
        token = int(ids.cpu()[0])
    except REFUSALS as exc:
        return f"{type(exc).__name__}: {str(exc).strip().splitlines()[0] if str(exc) else ''}"
    return "" if token == 3 else f"draws token {token} instead of 3"


def operator_takes(version: Version, row: RowParams, vocabulary: int) -> bool:
    """Return True if the operator draws this row from the same distribution as our own sampler.

    Our sampler draws rows with a seed, because they must replay on every device, rows that report
    log probabilities, greedy rows, and rows with parameters that the operator does not take.
    """
    if version is Version.NONE or row.seeded or row.logprobs >= 0:
        return False
    if row.temperature < GREEDY_BELOW or row.top_p <= 0 or row.min_p > 0 or row.typical_p < 1:
        return False
    k_off = not 0 < row.top_k < vocabulary
    if not k_off and not 1 < row.top_k <= K_MAX:
        return False
    return version is Version.V2 or not k_off or row.top_p >= 1


class NPUOperator:
    """`strowger_gateway.local_engine.sampling.top_k_top_p_operator.Operator` by torch_npu."""

    def __init__(self, vendor: SamplingNPU, version: Version) -> None:
        """version: V1 or V2."""
        self._vendor = vendor
        self._version = version

    def takes_rows(self, logits: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
        """Return the rows that the operator draws correctly: with version 2, all. Version 1 takes
        two-byte logits, misreads k = 0 and p <= 0, flattens rows that only top-p cuts, and fails
        for rows whose maximum is far below 0, where its search for the maximum begins."""
        if self._version is Version.V2:
            return torch.ones_like(top_k, dtype=torch.bool)
        if logits.dtype == torch.float32:
            return torch.zeros_like(top_k, dtype=torch.bool)
        by_k = (top_k >= 1) & (top_k <= min(logits.size(1), K_MAX))
        fit = (by_k & (top_p > 0)) | (~by_k & (top_k != 0) & (top_p >= 1))
        return fit & (logits.amax(dim=-1) > LOWEST_PEAK)

    def __call__(
        self,
        logits: Tensor,
        top_k: Tensor,
        top_p: Tensor,
        q: Tensor | None,
        *,
        eps: float,
        is_need_logits: bool,
        top_k_guess: int,
    ) -> tuple[Tensor, Tensor | None]:
        ids, kept = self._vendor.npu_top_k_top_p_sample(
            logits,
            top_k,
            top_p,
            q,
            eps=eps,
            is_need_logits=is_need_logits,
            top_k_guess=top_k_guess,
        )
        return ids, kept if is_need_logits else None


class NPUSampler:
    """Draws rows with noise from the device's generator."""

    def __init__(
        self,
        vendor: SamplingNPU,
        version: Version,
        noise: Callable[[Tensor], Tensor] = torch.Tensor.exponential_,
    ) -> None:
        """version: V1 or V2. noise: fills a float32 tensor with Exp(1) numbers, in place."""
        self._vendor = vendor
        self._version = version
        self._noise = noise

    def takes(self, row: RowParams, vocabulary: int) -> bool:
        return operator_takes(self._version, row, vocabulary)

    def draw(self, values: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
        """values: float32 [R, V] processed logits. temperature, top_p: float32 [R]; top_k: int32
        [R], over 1024 if off. Returns int64 [R].

        For version 1 the rows are shifted to a maximum of 0. This changes no probability, lets
        float16 hold every row, and is where that version begins its search for the maximum.
        """
        heated = values / temperature.unsqueeze(1)
        dtype = torch.float32
        if self._version is Version.V1:
            dtype = torch.float16
            heated = heated - heated.amax(dim=-1, keepdim=True)
            heated = torch.where(heated.isneginf(), heated, heated.clamp_min(LOWEST))
        ids, _ = self._vendor.npu_top_k_top_p_sample(
            heated.to(dtype),
            top_k,
            top_p.to(dtype),
            self._noise(torch.empty_like(values, memory_format=torch.contiguous_format)),
            eps=1e-8,
            is_need_logits=False,
            top_k_guess=32,
        )
        return ids
