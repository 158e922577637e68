"""The engine loop and everything that runs on the device, step by step."""
