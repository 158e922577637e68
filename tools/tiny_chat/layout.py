"""How conversations become training text: as the chat template in `template.py` writes them."""

import msgspec

from tools.tiny_chat.functions import Function, written
from tools.tiny_chat.tool_talk import CALL, CALLED, Call, call_text, read_result

BOS, END, PAD = "<|bos|>", "<|end|>", "<|pad|>"
SYSTEM, USER, ASSISTANT, TOOL = "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"
FUNCTION = "<|function|>"
SPECIAL_TOKENS = (PAD, BOS, END, SYSTEM, USER, ASSISTANT, TOOL, FUNCTION, CALL, CALLED)


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One question and its answer, if there is a `call`, from the call's result."""

    ask: str
    reply: str
    call: Call | None = None


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a document; the loss counts its tokens only if `learnt`."""

    text: str
    learnt: bool


Document = tuple[Segment, ...]


def conversation(
    exchanges: tuple[Exchange, ...], system: str | None, functions: tuple[Function, ...] = ()
) -> Document:
    """Format exchanges as the chat template does; calls, replies and their ends are learnt."""
    head = BOS + "".join(f"{FUNCTION}{written(function)}{END}" for function in functions)
    if system is not None:
        head += f"{SYSTEM}{system}{END}"
    segments: list[Segment] = []
    for each in exchanges:
        asked = f"{head}{USER}{each.ask}{END}{ASSISTANT}"
        segments.append(Segment(text=asked, learnt=False))
        if each.call is not None:
            result = f"{TOOL}{read_result(each.call.result)}{END}{ASSISTANT}"
            segments.append(Segment(text=call_text(each.call) + END, learnt=True))
            segments.append(Segment(text=result, learnt=False))
        segments.append(Segment(text=each.reply + END, learnt=True))
        head = ""
    return tuple(segments)
