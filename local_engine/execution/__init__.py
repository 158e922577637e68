"""The engine loop: what runs on the device, step by step."""
