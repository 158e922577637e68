"""NVIDIA Triton with the TensorRT-LLM backend."""
