"""What a request asks of Claude's thinking, in whichever of three forms its client wrote it.

- A client of the Messages API: `thinking` and `output_config.effort`, as JSON of its own.
- A chat client that knows Claude: the same as fields outside our schema.
- Every other client: `reasoning_effort`, which the encoder translates for the model.
"""

from collections.abc import Mapping
from typing import Final, cast

from msgspec import UNSET, DecodeError, Raw, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.anthropic.claude_models import thinks_by_budget
from strowger_gateway.adapters.anthropic.original_fields import says_effort
from strowger_gateway.adapters.repairs.rewriting import json_of, read_json
from strowger_gateway.schemas.requests import ChatRequest

Object = Mapping[str, object]

LEAST_BUDGET: Final = 1024
"""Tokens. https://platform.claude.com/docs/en/build-with-claude/extended-thinking"""

SHARES: Final[Mapping[str, int]] = {
    "minimal": 10,
    "low": 20,
    "medium": 50,
    "high": 80,
    "xhigh": 90,
    "max": 95,
}
"""The thinking budget of an effort, in percent of `max_tokens`."""

CONFIGS: Final = ("output_config", "outputConfig")
"""The field with the effort: Anthropic's, and Converse's."""


class Asked(Struct, frozen=True, kw_only=True):
    """native: the client wrote it as JSON of its own, which is in `original`.

    thinking: the object, `None` if there is none. config: the object with the effort, and its name.
    level: `reasoning_effort`, if that is how the client asked; "" if not.
    """

    request: ChatRequest
    native: bool
    thinking: Object | None
    config: Object
    config_name: str
    level: str

    @property
    def kind(self) -> str:
        """The type of thinking; "" if there is none."""
        return "" if self.thinking is None else str(self.thinking.get("type", ""))

    @property
    def effort(self) -> str:
        """The effort that the client sent with its own name; "" if there is none."""
        found = self.config.get("effort")
        return found if isinstance(found, str) else ""

    @property
    def budget(self) -> int | None:
        found = None if self.thinking is None else self.thinking.get("budget_tokens")
        return found if isinstance(found, int) else None

    @property
    def path(self) -> str:
        """Where the client asked for thinking, for reports."""
        return "reasoning_effort" if self.thinking is None else "thinking"

    def by_budget(self, model: str) -> bool:
        """Return whether the model gets a budget of tokens."""
        if self.thinking is not None:
            return self.kind == "enabled"
        return self.level not in ("", "none") and thinks_by_budget(model)

    @property
    def thinks(self) -> bool:
        """Whether the client asks for thinking."""
        if self.thinking is not None:
            return self.kind not in ("disabled", "")
        return self.level not in ("", "none")

    def without_thinking(self) -> ChatRequest:
        """Return the request without thinking, and without an effort that implies it."""
        if self.thinking is None:
            return replace(self.request, reasoning_effort=UNSET)
        return self.with_thinking(None)

    def with_thinking(self, thinking: Object | None, effort: str | None = None) -> ChatRequest:
        """Return the request with another object. effort: also with another effort, "" for none."""
        found = self._with("thinking", thinking)
        if effort is None:
            return found
        config = {name: value for name, value in self.config.items() if name != "effort"}
        if effort:
            config["effort"] = effort
        return _with_field(found, self.config_name, config or None, native=self.native)

    def with_effort(self, effort: str) -> ChatRequest:
        """Return the request with another effort, in the form that its client used."""
        if not self.native and not self.effort:
            return replace(self.request, reasoning_effort=effort or UNSET)
        return self.with_thinking(self.thinking, effort)

    def _with(self, name: str, value: Object | None) -> ChatRequest:
        return _with_field(self.request, name, value, native=self.native)


def asked(request: ChatRequest) -> Asked:
    """Read what a request asks of thinking; unreadable objects count as absent."""
    original, native = request.original, says_effort(request)
    fields = original.fields if native and original is not None else request.extra
    config_name = next((name for name in CONFIGS if name in fields), CONFIGS[0])
    level = "" if native else request.reasoning_effort
    return Asked(
        request=request,
        native=native,
        thinking=_read(fields.get("thinking")),
        config=_read(fields.get(config_name)) or {},
        config_name=config_name,
        level=level if isinstance(level, str) else "",
    )


def budget_of(effort: str, max_tokens: int) -> int | None:
    """Return the thinking budget of an effort; `None` if the limit leaves no room for one."""
    if max_tokens <= LEAST_BUDGET:
        return None
    return max(LEAST_BUDGET, max_tokens * SHARES[effort] // 100)


def _read(raw: Raw | None) -> Object | None:
    if raw is None:
        return None
    try:
        value = read_json(raw)
    except (DecodeError, RecursionError):
        return None
    return cast("Object", value) if isinstance(value, dict) else None


def _with_field(
    request: ChatRequest, name: str, value: Object | None, *, native: bool
) -> ChatRequest:
    """Return the request with the field's JSON, in both places where a native client's may be."""
    raw = None if value is None else json_of(value)
    original = request.original
    if native and original is not None:
        fields = _set(original.fields, name, raw)
        request = replace(request, original=replace(original, fields=fields))
        if name not in request.extra:
            return request
    return replace(request, extra=_set(request.extra, name, raw))


def _set(fields: Mapping[str, Raw], name: str, raw: Raw | None) -> dict[str, Raw]:
    found = {one: value for one, value in fields.items() if one != name}
    if raw is not None:
        found[name] = raw
    return found
