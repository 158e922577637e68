"""Inference on this machine: tokens in, tokens out."""
