"""Complete answers: the result of folding a stream of events, and embeddings."""

from collections.abc import Iterable

from msgspec import Raw, Struct

from strowger_gateway.schemas.events import (
    LONGEST_TOKEN,
    Event,
    Finished,
    Logits,
    NativeDelta,
    OpaqueDelta,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    TokenLogprob,
    Tokens,
    ToolDelta,
    Usage,
)
from strowger_gateway.schemas.messages import Thought, ToolCall
from strowger_gateway.schemas.tensors import Tensor


class Choice(Struct, kw_only=True, gc=False):
    """One choice of an answer, in progress or complete: `finish` is `None` until it completes.

    text:     `None` where the backend sent no text at all (a pure tool call).
    thoughts: the reasoning, block by block.
    """

    index: int
    text: str | None = None
    thoughts: list[Thought] = []
    refusal: str | None = None
    tool_calls: list[ToolCall] = []
    logprobs: list[TokenLogprob] = []
    refusal_logprobs: list[TokenLogprob] = []
    token_ids: list[int] = []
    opaque: dict[str, Raw] = {}
    generation_logits: Tensor | None = None
    finish: Finished | None = None

    @property
    def reasoning(self) -> str:
        """All readable reasoning text."""
        return "".join([thought.text for thought in self.thoughts])


class Answer(Struct, kw_only=True, gc=False):
    """A backend's complete answer, choices in index order."""

    started: Started
    choices: list[Choice]
    usage: Usage | None = None
    context_logits: Tensor | None = None


class Embeddings(Struct, frozen=True, kw_only=True, gc=False):
    """Vectors in input order, each all numbers or all base64 (little-endian float32)."""

    vectors: tuple[list[float] | str, ...]
    model: str = ""
    id: str = ""
    usage: Usage = Usage()


_NOT_STARTED = Started()


class Fold(Struct, eq=False):
    """Collects events into an Answer. `add` never looks back: each event costs O(its own size).

    deltas: number of content events so far (`strowger_gateway.schemas.events.CONTENT`); token
    events count by their
    ids. usage: the latest received, usage_at: after so many deltas.
    """

    deltas: int = 0
    usage: Usage | None = None
    usage_at: int = 0
    _started: Started = _NOT_STARTED
    _context: Tensor | None = None
    _choices: dict[int, Choice] = {}
    _text: dict[int, list[str]] = {}
    _thoughts: dict[tuple[int, int], list[ReasoningDelta]] = {}
    _arguments: dict[tuple[int, int], list[str]] = {}
    _tools: dict[tuple[int, int], ToolDelta] = {}

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            if type(event) is TextDelta:
                self.deltas += 1
                if event.logprobs:
                    self._choice(event.index).logprobs.extend(event.logprobs)
                pieces = self._text.get(event.index)
                if pieces is None:
                    self._choice(event.index)
                    self._text[event.index] = [event.text]
                else:
                    pieces.append(event.text)
            elif type(event) is Finished:
                self.deltas += 1
                self._choice(event.index).finish = event
            elif type(event) is Usage:
                self.usage, self.usage_at = event, self.deltas
            elif type(event) is Started:
                self._started = event
            else:
                self._add_rarer(event)  # pyright: ignore[reportArgumentType]  the others are above

    @property
    def tokens(self) -> int:
        """Estimate the tokens of what was collected, for an answer without usage."""
        if any(choice.token_ids for choice in self._choices.values()):
            return self.deltas
        pieces = [one for some in (self._text, self._arguments) for one in some.values()]
        texts = [text for some in pieces for text in some]
        texts += [one.text for some in self._thoughts.values() for one in some]
        longer = [len(text) // 4 - 1 for text in texts if len(text) > LONGEST_TOKEN]
        return self.deltas + sum(longer)

    def answer(self) -> Answer:
        """Return what was collected; the caller ensures that every choice has finished."""
        for index, pieces in self._text.items():
            self._choices[index].text = "".join(pieces)
        if not (self._thoughts or self._tools):
            return self._whole()
        for key in sorted(self._thoughts):
            pieces = self._thoughts[key]
            self._choices[key[0]].thoughts.append(
                Thought(
                    text="".join([piece.text for piece in pieces]),
                    signature="".join([piece.signature for piece in pieces]),
                    data="".join([piece.data for piece in pieces]),
                    format=pieces[-1].format,
                )
            )
        for key in sorted(self._tools):
            first, arguments = self._tools[key], "".join(self._arguments[key])
            self._choices[key[0]].tool_calls.append(
                ToolCall(
                    id=first.id,
                    name=first.name,
                    arguments=arguments or "{}",
                    signature=first.signature,
                )
            )
        return self._whole()

    def _whole(self) -> Answer:
        choices = list(self._choices.values())
        if len(choices) > 1:
            choices.sort(key=lambda choice: choice.index)
        return Answer(
            started=self._started,
            choices=choices,
            usage=self.usage,
            context_logits=self._context,
        )

    def _add_rarer(
        self,
        event: Tokens
        | ReasoningDelta
        | RefusalDelta
        | ToolDelta
        | OpaqueDelta
        | NativeDelta
        | Logits,
    ) -> None:
        self.deltas += len(event.ids) if isinstance(event, Tokens) else 1
        match event:
            case Tokens():
                choice = self._choice(event.index)
                choice.token_ids.extend(event.ids)
                choice.logprobs.extend(event.logprobs)
                self._text.setdefault(event.index, []).append(event.text)
            case ReasoningDelta():
                self._choice(event.index)
                self._thoughts.setdefault((event.index, event.block), []).append(event)
            case RefusalDelta():
                choice = self._choice(event.index)
                choice.refusal = (choice.refusal or "") + event.text
                choice.refusal_logprobs.extend(event.logprobs)
            case ToolDelta():
                self._choice(event.index)
                key = (event.index, event.tool)
                self._tools.setdefault(key, event)
                self._arguments.setdefault(key, []).append(event.arguments)
            case OpaqueDelta():
                self._choice(event.index).opaque.update(event.fields)
            case NativeDelta():
                # A complete answer has all blocks in its opaque fields.
                self._choice(event.index)
            case Logits(of="context"):
                self._context = event.tensor
            case Logits():
                self._choice(event.index).generation_logits = event.tensor

    def _choice(self, index: int) -> Choice:
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = Choice(index=index)
        return choice
