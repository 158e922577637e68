"""The garbage collector, for processes that serve."""

import gc


def tune_garbage_collector() -> None:
    """Exclude the objects made at start-up from garbage collection, and collect less often.

    A request makes about a hundred containers and no cycles, so the default threshold of 700
    would run the collector every few requests without effect.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
