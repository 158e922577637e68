"""Kernels of Ascend NPUs by torch-npu, and what they need around them."""
