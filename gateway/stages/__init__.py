"""What a request passes, step by step: its context, stages, and the filters of its answer."""
