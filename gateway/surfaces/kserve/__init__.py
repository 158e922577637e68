"""The KServe and TensorRT-LLM surface."""
