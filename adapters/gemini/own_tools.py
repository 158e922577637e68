"""Google's own tools next to functions, at models that take only one of the two.

The functions stay: an agent's conversation goes on by them, and it needs no search.
https://github.com/symfony/ai/issues/803
"""

from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.adapters.gemini.encode import is_older
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import OPAQUE
from strowger_gateway.schemas.messages import FunctionTool, Message, OpaqueTool
from strowger_gateway.schemas.requests import ChatRequest, Request


def _functions_alone(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or not request.tools:
        return None
    functions = tuple([one for one in request.tools if isinstance(one, FunctionTool)])
    if not functions or len(functions) == len(request.tools):
        return None
    return Repaired(request=replace(request, tools=functions), left_out=("tools.opaque",))


FUNCTIONS_ALONE: Final = Repair(
    name="functions_alone",
    about="leaves out Google's own tools next to functions",
    source="https://github.com/symfony/ai/issues/803",
    facts=OPAQUE,
    apply=_functions_alone,
    example=ChatRequest(
        "m",
        (Message(role="user", content="Look it up."),),
        tools=(
            FunctionTool(name="look_up"),
            OpaqueTool(type="google_search", raw=Raw(b'{"type":"google_search"}')),
        ),
    ),
    example_model="gemini-2.5-flash",
    loss="hint",
    models=is_older,
)
