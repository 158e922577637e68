"""Select a model's kernels once, at loading, by testing them on the device."""

from collections.abc import Sequence
from importlib import import_module
from typing import cast

import torch
from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.local_engine.ops.cuda_graphs import cuda_graph
from strowger_gateway.local_engine.ops.cuda_offers import cuda_offers
from strowger_gateway.local_engine.ops.decode_graphs import Capture
from strowger_gateway.local_engine.ops.kernel_guards import guarded
from strowger_gateway.local_engine.ops.kernels import Kernels
from strowger_gateway.local_engine.ops.npu.graphs import AttentionTasks, GraphNPU, NPUCapture
from strowger_gateway.local_engine.ops.npu.offers import npu_offers
from strowger_gateway.local_engine.ops.npu.operators import TorchNPU
from strowger_gateway.local_engine.ops.npu.sampling import (
    NPUOperator,
    NPUSampler,
    Probe,
    SamplingNPU,
    Version,
    probe_operator,
)
from strowger_gateway.local_engine.ops.self_test import (
    SMALL,
    Offer,
    Shape,
    Trial,
    TrialSizes,
    choose_kernels,
    for_all_shapes,
    run_trials,
)
from strowger_gateway.local_engine.ops.trial_log import trying
from strowger_gateway.local_engine.sampling.batch_params import RowOperator
from strowger_gateway.local_engine.sampling.top_k_top_p_operator import use_operator


class KernelSelection(Struct, frozen=True, kw_only=True, eq=False):
    """trials: in the order in which they ran. operator: for sampling, if the device has one.

    capture: for decoding steps, if the device supports graphs.
    probe: the operator's version, and why no better one; `None` if no such device has one.
    """

    kernels: Kernels
    trials: tuple[Trial, ...]
    operator: RowOperator | None
    probe: Probe | None
    capture: Capture | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines to log: the kernels in use, and the unused ones with the reason."""
        used = [trial.kernel for trial in self.trials if not trial.problem]
        lines = [f"kernels: {', '.join(used) or 'torch only'}"]
        lines += [
            f"not used: {trial.kernel}: {trial.problem}" for trial in self.trials if trial.problem
        ]
        if self.probe is not None:
            reason = f" ({self.probe.problem})" if self.probe.problem else ""
            lines.append(f"sampling operator: {self.probe.version.value}{reason}")
        return tuple(lines)


def select_kernels(
    device: str,
    dtype: torch.dtype,
    shapes: Sequence[Shape],
    *,
    thorough: bool = False,
    sizes: TrialSizes = SMALL,
) -> KernelSelection:
    """shapes: of the model's layers; a kernel is used if it works for all of them.

    thorough: test every kernel, even if a better one of its role works.
    sizes: of the engine's largest steps, which are tried as well.
    """
    match device:
        case "npu":
            vendor, npu = import_module("torch_npu"), torch.get_device_module("npu")
            soc = str(npu.get_device_name(0))
            sampling = cast(SamplingNPU, vendor)
            selection = select_npu_kernels(
                cast(TorchNPU, vendor),
                sampling,
                soc,
                dtype,
                shapes,
                graphs=cast(GraphNPU, npu),
                thorough=thorough,
                sizes=sizes,
            )
            version = Version.NONE if selection.probe is None else selection.probe.version
            use_operator("npu", None if version is Version.NONE else NPUOperator(sampling, version))
            return selection
        case "cuda":
            offers = for_all_shapes([cuda_offers(shape, dtype, sizes=sizes) for shape in shapes])
            selection = _select("cuda", offers, thorough=thorough)
            return replace(selection, capture=cuda_graph)
        case _:
            return _select(device, (), thorough=thorough)


def select_npu_kernels(
    vendor: TorchNPU,
    sampling: SamplingNPU,
    soc: str,
    dtype: torch.dtype,
    shapes: Sequence[Shape],
    *,
    device: str = "npu",
    graphs: GraphNPU | None = None,
    thorough: bool = False,
    sizes: TrialSizes = SMALL,
) -> KernelSelection:
    """vendor, sampling: the module torch_npu. soc: the product's name. device: of its tensors.

    graphs: torch.npu, if decoding steps are to be captured.
    """
    with trying("sampling", "npu_top_k_top_p_sample") as tried:
        probe = probe_operator(sampling, soc, device)
        tried.tried, tried.problem = probe.version.value, probe.problem
    operator = None
    if probe.version is not Version.NONE:
        operator = NPUSampler(sampling, probe.version)
    tasks = None if graphs is None else AttentionTasks(graphs)
    offers = for_all_shapes(
        [npu_offers(vendor, shape, dtype, device, sizes, tasks) for shape in shapes]
    )
    selection = _select("npu", offers, thorough=thorough, operator=operator, probe=probe)
    if graphs is None or tasks is None:
        return selection
    return replace(selection, capture=NPUCapture(graphs, tasks))


def _select(
    name: str,
    offers: Sequence[Offer],
    *,
    thorough: bool,
    operator: RowOperator | None = None,
    probe: Probe | None = None,
) -> KernelSelection:
    trials = run_trials(offers, thorough=thorough)
    kernels = guarded(choose_kernels(name, offers, trials))
    return KernelSelection(kernels=kernels, trials=trials, operator=operator, probe=probe)
