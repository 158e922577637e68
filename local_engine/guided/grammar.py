"""The interface of a compiled grammar for guided decoding."""

from typing import Protocol

from torch import Tensor


class Grammar(Protocol):
    """The state of one answer in its grammar; owned by the engine's thread."""

    @property
    def field(self) -> str:
        """The request's field with the grammar."""
        ...

    def allow(self, row: Tensor) -> None:
        """Write the permitted next tokens into `row`, bool [V] on the CPU: True is permitted.

        End tokens are permitted where the answer may end. At least one token is always permitted.
        """
        ...

    def advance(self, token: int) -> None:
        """Advance the state by `token`, which is permitted or ends the answer."""
        ...

    def fork(self) -> "Grammar":
        """Return an independent copy for another answer that continues from here."""
        ...

    @property
    def over(self) -> bool:
        """True if the answer is complete and nothing can follow."""
        ...

    @property
    def failure(self) -> str:
        """Why the answer cannot continue; "" while it can."""
        ...
