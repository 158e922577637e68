"""Leader, workers, and other gateways."""
