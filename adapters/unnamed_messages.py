"""Messages for backends whose messages have no names, and whose results need the call's id."""

from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import Message


def check_unnamed(one: Message, field: str) -> None:
    """Raise InvalidRequest for a name, or for a result without its call's id.

    field: the message's path, as `messages[3]`.
    """
    if one.role == "function":
        raise InvalidRequest(
            f"{field}.role: this backend needs the call's id; send role tool with tool_call_id",
            param=f"{field}.role",
        )
    if one.name and one.role != "tool":
        where = f"{field}.name"
        raise InvalidRequest(
            f"{where}: this backend does not support names; write the name into the text",
            param=where,
        )
