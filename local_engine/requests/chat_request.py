"""Prepare a chat request: its prompt, the grammar of the answer, and how to parse the answer."""

import re

from msgspec import UNSET, Struct, UnsetType

from strowger_gateway.local_engine.answer_formats.catalogue import HARMONY, format_of
from strowger_gateway.local_engine.answer_formats.formats import ToolFormat
from strowger_gateway.local_engine.answer_formats.reasoning import Thinking, thinking_of
from strowger_gateway.local_engine.child_process.messages import Guide
from strowger_gateway.local_engine.child_process.text_encoder import Offload
from strowger_gateway.local_engine.guided.compiler import GuideCompiler, quote
from strowger_gateway.local_engine.requests.output_parser import OutputFormat
from strowger_gateway.local_engine.requests.response_constraints import body_of, guide_of
from strowger_gateway.local_engine.text.control_tokens import Rendered
from strowger_gateway.local_engine.text.text_length import Reach
from strowger_gateway.local_engine.text.tokenizer import Tokenizer
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import FunctionTool, Message, Tool, ToolChoice, text_of
from strowger_gateway.schemas.requests import ChatRequest


class PreparedChat(Struct, frozen=True, kw_only=True, eq=False):
    """guide: `None` for free text. output_format: `None` if the text is returned unparsed."""

    prompt: tuple[int, ...]
    guide: Guide | None
    output_format: OutputFormat | None


NO_CHAT = PreparedChat(prompt=(), guide=None, output_format=None)
"""For requests that are not chats."""


class ChatReader:
    """Reads chat requests for one model. Safe to call from any thread."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        guides: GuideCompiler,
        reach: Reach,
        *,
        holds_calls: bool = False,
    ) -> None:
        """reach: the longest prompt. holds_calls: a grammar always writes calls to functions."""
        self._holds_calls = holds_calls
        self._reach = reach
        self._tokenizer = tokenizer
        self._guides = guides
        self._format = format_of(
            tokenizer.chat.source, lambda mark: tokenizer.token_of(mark) is not None
        )
        self._thinking = thinking_of(tokenizer.chat.source)
        marks = () if self._thinking is None else self._thinking.spellings
        marks += self._format.spellings
        texts = {
            *(text for text in tokenizer.controls.spellings if any(text in mark for mark in marks)),
            *(mark for mark in marks if tokenizer.token_of(mark) is not None),
        }
        found = {text: tokenizer.token_of(text) for text in texts}
        self._tokens = {token: text for text, token in found.items() if token is not None}
        longest = sorted(texts, key=len, reverse=True)
        self._splits = re.compile(f"({'|'.join(map(re.escape, longest)) or '(?!)'})")

    def read_question(
        self, text: str, offload: Offload | None = None, *, room: int | None = None
    ) -> tuple[int, ...]:
        """Return the prompt of a conversation with one user message.

        room: tokens to which a prompt that is too long is cut; `None`: it is rejected.
        """
        message = Message(role="user", content=text)
        rendered = self._tokenizer.chat.rendered((message,), (), self._tokenizer.controls)
        return self._encode(rendered, "prompt", offload, room)

    def read(self, request: ChatRequest, offload: Offload | None = None) -> PreparedChat:
        """Prepare a request. offload: see TextEncoder.encode.

        Raises InvalidRequest naming the field.
        """
        choice = request.tool_choice
        tools = _offered(request)
        body = body_of(request.response_format)
        messages, begun = request.messages, ""
        if request.begun:
            messages, begun = messages[:-1], text_of(messages[-1])
        rendered = self._tokenizer.chat.rendered(messages, tools, self._tokenizer.controls, begun)
        text = rendered.text
        prompt = self._encode(rendered, "messages", offload)
        callable_ = _callable(tools, choice)
        parallel = request.parallel_tool_calls is not False
        output_format = self._output_format(
            text,
            callable_,
            choice,
            guided=body is not None or not parallel or self._holds_calls,
            begun=begun,
        )
        guide = guide_of(
            output_format,
            body=None if output_format.required else body,
            tools=callable_,
            parallel=parallel,
            spell=self._spell,
        )
        return PreparedChat(
            prompt=prompt, guide=guide, output_format=None if output_format.plain else output_format
        )

    def _output_format(
        self,
        prompt: str,
        tools: tuple[FunctionTool, ...],
        choice: ToolChoice | UnsetType,
        *,
        guided: bool,
        begun: str,
    ) -> OutputFormat:
        """guided: a grammar must write the calls even if no function is strict.

        begun: the beginning of the answer, as the client wrote it; such an answer can only go on
        with reasoning, not begin with it.
        """
        end = prompt.rstrip()
        thinking = self._thinking
        opened = False
        if thinking is not None:
            opened = end.endswith(thinking.open) or (thinking.assumed and not begun)
            if begun:
                opened = begun.rfind(thinking.open) > begun.rfind(thinking.close)
            if end.endswith(thinking.close) or (begun and not opened):
                thinking, opened = None, False
        required = bool(tools) and choice is not UNSET and choice.mode in {"required", "named"}
        format = self._format if tools else None
        channels = self._format is HARMONY
        return OutputFormat(
            thinking=thinking,
            opened=bool(begun) and not required if channels else opened,
            channels=channels,
            tools=format,
            functions={tool.name: tool.parameters for tool in tools},
            guaranteed=bool(tools) and (guided or required or any(tool.strict for tool in tools)),
            required=required,
            literals=self._literals(thinking, HARMONY if channels else format),
        )

    def _literals(self, thinking: Thinking | None, format: ToolFormat | None) -> dict[int, str]:
        """Return the tokens in the marks that a decoder leaves out, with their text."""
        marks = () if thinking is None else thinking.spellings
        marks += () if format is None else format.spellings
        return {
            token: text
            for token, text in self._tokens.items()
            if any(text in mark for mark in marks) and not self._tokenizer.decode([token])
        }

    def _spell(self, text: str) -> str:
        """Return a text with marks in lark; those that are tokens become tokens."""
        spelled: list[str] = []
        plain = ""
        for part in self._splits.split(text):
            one = self._guides.spell(part, self._tokenizer.token_of(part))
            if not part or not one.startswith("<["):
                plain += part
                continue
            spelled += [quote(plain), one] if plain else [one]
            plain = ""
        return " ".join([*spelled, quote(plain)] if plain else spelled)

    def _encode(
        self, rendered: Rendered, field: str, offload: Offload | None, room: int | None = None
    ) -> tuple[int, ...]:
        if room is None:
            self._reach.refuse(rendered.text, field)
        most = self._reach.tokens if room is None else room
        ids, count = self._tokenizer.encode_chat(rendered, most=most, offload=offload)
        if room is None:
            self._reach.refuse_count(count)
        return tuple(ids)


def _offered(request: ChatRequest) -> tuple[Tool, ...]:
    """Return the tools to put into the prompt."""
    choice = request.tool_choice
    tools = () if request.tools is UNSET else request.tools
    if choice is UNSET or not tools:
        return tools
    if choice.mode == "opaque":
        raise InvalidRequest(
            "tool_choice: this form is not supported; send none, auto, required or a function",
            param="tool_choice",
        )
    return () if choice.mode == "none" else tools


def _callable(tools: tuple[Tool, ...], choice: ToolChoice | UnsetType) -> tuple[FunctionTool, ...]:
    functions = tuple(tool for tool in tools if isinstance(tool, FunctionTool))
    if choice is UNSET or choice.mode != "named":
        return functions
    return tuple(tool for tool in functions if tool.name == choice.name)
