"""How models write tool calls, told by their chat templates; one row a way of writing."""

import secrets
import string

from msgspec import Struct

_ALPHABET = string.ascii_letters + string.digits


class ToolFormat(Struct, frozen=True, kw_only=True):
    """One way of writing calls.

    open, close: markers around each call ("" where there are none); around the list of all calls
                 where `listed`.
    listed:   the calls are a JSON array.
    key:      what the arguments are called.
    between:  what stands between calls.
    bare:     a text that begins as JSON is a call although no marker says so.
    id:       of this many letters and digits, after `prefix`.
    """

    name: str
    open: str = ""
    close: str = ""
    listed: bool = False
    key: str = "arguments"
    between: str = ""
    bare: bool = False
    prefix: str = "call_"
    id: int = 24

    def new_id(self) -> str:
        return self.prefix + "".join(secrets.choice(_ALPHABET) for _ in range(self.id))


HERMES = ToolFormat(name="hermes", open="<tool_call>", close="</tool_call>", between="\n")
"""https://github.com/NousResearch/Hermes-Function-Calling; Qwen writes the same."""

MISTRAL = ToolFormat(
    name="mistral", open="[TOOL_CALLS]", listed=True, between=", ", prefix="", id=9
)
"""https://docs.mistral.ai/capabilities/function_calling; its templates demand such ids."""

LLAMA = ToolFormat(name="llama", open="<|python_tag|>", key="parameters", between="; ", bare=True)
"""https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/; the marker is optional."""

GENERIC = ToolFormat(name="json", between="; ", bare=True)
"""For models whose way of writing we do not know."""

_SIGNS: tuple[tuple[ToolFormat, tuple[str, ...], tuple[str, ...]], ...] = (
    (HERMES, ("<tool_call>",), ("<function=", "<arg_key>")),
    (MISTRAL, ("[TOOL_CALLS]",), ("[ARGS]",)),
    (LLAMA, ("<|python_tag|>",), ()),
    (LLAMA, ('"parameters": dictionary',), ()),
)
"""A format, what a template of it mentions, and what it does not."""


def format_of(template: str) -> ToolFormat:
    for found, signs, others in _SIGNS:
        if any(sign in template for sign in signs) and not any(sign in template for sign in others):
            return found
    return GENERIC
