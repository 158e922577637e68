"""Events fold to complete answers."""

from strowger_gateway.schemas.answers import Fold
from strowger_gateway.schemas.events import (
    Finished,
    ReasoningDelta,
    Started,
    TextDelta,
    Tokens,
    ToolDelta,
    Usage,
)


def test_a_fold_counts_how_much_has_been_shown_so_far() -> None:
    """Content events are counted, tokens by id: the estimate if a backend sends no usage."""
    fold = Fold()

    fold.add([Started(id="x")])
    shown = [fold.deltas]
    fold.add([Tokens(ids=(5, 6, 7), text="two words")])
    shown.append(fold.deltas)
    fold.add([ReasoningDelta(text="hm"), TextDelta(text="so"), ToolDelta(tool=0, name="f")])
    shown.append(fold.deltas)
    fold.add([Finished(reason="stop"), Usage(completion_tokens=4)])
    shown.append(fold.deltas)

    assert shown == [0, 3, 6, 7]
    assert fold.usage == Usage(completion_tokens=4)
