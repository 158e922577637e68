"""LoRA adapters: layers, cache and file formats."""
