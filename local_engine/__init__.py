"""Inference on this machine: tokens in, tokens out."""

if __name__ != "strowger_gateway.local_engine":
    raise ImportError("the name of this package is strowger_gateway.local_engine")
