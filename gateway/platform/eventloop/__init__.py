"""One turn of the event loop as one batch, and coroutines that run in it without a task."""
