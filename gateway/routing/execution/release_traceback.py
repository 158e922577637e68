"""Free what a handled failure keeps alive through its traceback."""


def release_traceback(failure: BaseException) -> None:
    """Drop the tracebacks of a failure and of its causes; they are never printed.

    Their frames hold the request with its body, and refer back to the failure. Only the garbage
    collector frees such a cycle, hundreds of requests later.
    """
    pending: list[BaseException | None] = [failure.__cause__, failure.__context__]
    failure.__traceback__ = None
    while pending:
        cause = pending.pop()
        if cause is not None and cause.__traceback__ is not None:
            cause.__traceback__ = None
            pending += (cause.__cause__, cause.__context__)
