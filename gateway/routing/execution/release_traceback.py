"""What a failure still holds when everybody has heard of it."""


def release_traceback(failure: BaseException) -> None:
    """Drop the frames that it and its causes came through; nobody prints them.

    They hold the request, its body among it, and lead back to the failure: such a circle is freed
    by the garbage collector alone, hundreds of requests later.
    """
    left: list[BaseException | None] = [failure.__cause__, failure.__context__]
    failure.__traceback__ = None
    while left:
        one = left.pop()
        if one is not None and one.__traceback__ is not None:
            one.__traceback__ = None
            left += (one.__cause__, one.__context__)
