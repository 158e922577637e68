"""Resources that clients look up without calling a model, one module per dialect."""
