"""Text Generation Inference: its native routes."""
