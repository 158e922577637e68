"""Formats in which models write tool calls, recognised by their chat templates."""

import secrets
import string

from msgspec import Struct

_ALPHABET = string.ascii_letters + string.digits


class ToolFormat(Struct, frozen=True, kw_only=True):
    """One format of tool calls.

    open, close: markers around each call ("" for none), or around the list if `listed`.
    listed:   the calls are a JSON array.
    key:      the name of the arguments.
    between:  the separator of calls.
    bare:     text that starts as JSON is a call even without a marker.
    id:       length of a call's id in letters and digits, after `prefix`.
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
"""https://docs.mistral.ai/capabilities/function_calling; its templates require such ids."""

LLAMA = ToolFormat(name="llama", open="<|python_tag|>", key="parameters", between="; ", bare=True)
"""https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/; the marker is optional."""

GENERIC = ToolFormat(name="json", between="; ", bare=True)
"""For models with an unknown format."""

_SIGNS: tuple[tuple[ToolFormat, tuple[str, ...], tuple[str, ...]], ...] = (
    (HERMES, ("<tool_call>",), ("<function=", "<arg_key>")),
    (MISTRAL, ("[TOOL_CALLS]",), ("[ARGS]",)),
    (LLAMA, ("<|python_tag|>",), ()),
    (LLAMA, ('"parameters": dictionary',), ()),
)
"""A format, the strings that a template with it contains, and strings that it does not."""


def format_of(template: str) -> ToolFormat:
    for found, signs, others in _SIGNS:
        if any(sign in template for sign in signs) and not any(sign in template for sign in others):
            return found
    return GENERIC
