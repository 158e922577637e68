"""Tiny models whose templates support tools or reasoning, each in the format of a family."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from tests.local_engine.tiny import save_model, save_tokenizer

_TURNS = "{% for m in messages %}<|user|>{{ m.role }}: {{ m.content }}\n{% endfor %}"
_TOOLS = "{% if tools %}{{ tools | tojson }}{% endif %}"
_GO = "{% if add_generation_prompt %}<|assistant|>{% endif %}"


class Talker(Struct, frozen=True, kw_only=True):
    """markers: additional tokens, True if they are special."""

    template: str
    markers: Mapping[str, bool]


TALKERS = {
    "hermes": Talker(
        template=_TOOLS + "{# <tool_call> #}" + _TURNS + _GO,
        markers={"<tool_call>": False, "</tool_call>": False},
    ),
    "hermes-text": Talker(template=_TOOLS + "{# <tool_call> #}" + _TURNS + _GO, markers={}),
    "mistral-calls": Talker(
        template=_TOOLS + "{# [TOOL_CALLS] #}" + _TURNS + _GO, markers={"[TOOL_CALLS]": True}
    ),
    "llama-calls": Talker(
        template=_TOOLS + "{# <|python_tag|> #}" + _TURNS + _GO, markers={"<|python_tag|>": True}
    ),
    "generic": Talker(template=_TOOLS + _TURNS + _GO, markers={}),
    "thinker": Talker(
        template=_TOOLS + "{# <tool_call> <think> </think> #}" + _TURNS + _GO,
        markers={"<think>": False, "</think>": False, "<tool_call>": True, "</tool_call>": True},
    ),
    "kimi-calls": Talker(
        template=_TOOLS + "{# <|tool_calls_section_begin|> #}" + _TURNS + _GO,
        markers=dict.fromkeys(
            (
                "<|tool_calls_section_begin|>",
                "<|tool_calls_section_end|>",
                "<|tool_call_begin|>",
                "<|tool_call_argument_begin|>",
                "<|tool_call_end|>",
            ),
            True,
        ),
    ),
    "dsml": Talker(template=_TOOLS + "{# ｜DSML｜ #}" + _TURNS + _GO, markers={"｜DSML｜": True}),
    "harmony": Talker(
        template=_TOOLS + "{# <|channel|> <|message|> #}" + _TURNS + _GO,
        markers=dict.fromkeys(
            ("<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>"), True
        ),
    ),
    "gemma-calls": Talker(
        template=_TOOLS + "{# <|tool_call>call: <|channel>thought <channel|> #}" + _TURNS + _GO,
        markers=dict.fromkeys(
            ("<|tool_call>", "<tool_call|>", '<|"|>', "<|channel>", "<channel|>"), True
        ),
    ),
    "opened": Talker(
        template="{# </think> #}" + _TURNS + _GO + "<think>\n",
        markers={"<think>": False, "</think>": False},
    ),
    "opened-text": Talker(template="{# </think> #}" + _TURNS + _GO + "<think>\n", markers={}),
}


def save_talker(folder: Path, name: str) -> Path:
    """Long answers fit: its context is 4096 tokens."""
    save_model(folder, "llama", max_position_embeddings=4096)
    talker = TALKERS[name]
    save_tokenizer(folder, template=talker.template, markers=talker.markers)
    return folder
