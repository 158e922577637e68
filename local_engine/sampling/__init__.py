"""Sample tokens from logits."""
