"""What ends a copy."""

from strowger_gateway.schemas.errors import InvalidConfig


class CopyFault(InvalidConfig):
    """The databases cannot be copied as they are."""

    def __init__(self, *problems: str) -> None:
        super().__init__(problems)
