"""What becomes of a conversation that its client has compacted, in words."""

from strowger_gateway.schemas.requests import ChatRequest, Request


def compaction_words(request: Request) -> str:
    """Return "" for a request that asks for no compaction. See docs/compaction.md."""
    if not isinstance(request, ChatRequest) or request.original is None:
        return ""
    wants = request.original.compaction
    if wants is None:
        return ""
    if wants.now:
        return "the answer is a summary; backends that make none themselves get a transcript"
    more = f"{wants.threshold} tokens" if wants.threshold else "80 % of the model's context"
    return f"an input of more than {more} is summarised before it is answered"
