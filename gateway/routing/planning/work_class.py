"""Classes of requests that take one backend about equally long, so that their times compare."""

from strowger_gateway.gateway.routing.planning.request_facts import estimated_tokens
from strowger_gateway.schemas.content_facts import IMAGES, OPAQUE, TOOL_MEDIA, message_facts
from strowger_gateway.schemas.requests import ChatRequest, Request

WorkClass = tuple[str, str, int, int, int, str]
"""A model's name, the type of the request, and classes of its sizes."""

LEAST_TOKENS = 64
"""Shorter prompts and answers are of one class; each further class is twice as long."""

_MEDIA = IMAGES | OPAQUE | TOOL_MEDIA


def work_class(
    request: Request, model: str, prompt_tokens: int | None, written: int | None
) -> WorkClass:
    """The class of a request.

    prompt_tokens: `None` if it has not been estimated. written: the tokens of the answer if its
    time is that of all of them; `None` if it is the time to the first.
    """
    tokens = estimated_tokens(request) if prompt_tokens is None else prompt_tokens
    media, effort = 0, ""
    if isinstance(request, ChatRequest):
        media = message_facts(request.messages) & _MEDIA
        effort = request.reasoning_effort if isinstance(request.reasoning_effort, str) else ""
    return (
        model,
        type(request).__name__,
        max(tokens, LEAST_TOKENS).bit_length(),
        0 if written is None else max(written, LEAST_TOKENS).bit_length(),
        media,
        effort,
    )
