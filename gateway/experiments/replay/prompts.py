"""A logged request as a prompt: on which API, what both arms get of it, and whose it is."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final, Literal, cast

import msgspec
from msgspec import Struct

from strowger_gateway.schemas.measured_json import read_json

Api = Literal["chat", "messages", "responses", "completions"]

PATHS: Final[Mapping[Api, str]] = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "completions": "/v1/completions",
}
LOWEST_PRIORITY: Final = 5
_PRIORITISED: Final = ("chat", "completions")
"""APIs whose requests carry a priority."""

_MOST_TOKENS: Final[Mapping[Api, tuple[str, ...]]] = {
    "chat": ("max_tokens", "max_completion_tokens"),
    "messages": ("max_tokens",),
    "responses": ("max_output_tokens",),
    "completions": ("max_tokens",),
}
_DROPPED: Final = frozenset(
    {
        "model", "stream", "stream_options", "n", "best_of", "user", "safety_identifier",
        "prompt_cache_key", "metadata", "store", "priority", "timeout_s", "service_tier",
        "background",
    }
)  # fmt: skip
"""What belongs to the logged exchange, its user or its client, and not to the prompt."""

_STATE: Final = ("previous_response_id", "conversation")
"""Fields of requests that continue what a server has stored."""

_REFERENCE: Final = "item_reference"
_LARGEST_ANSWER: Final = 10_000_000
"""Tokens: more than any model answers, whatever a request allows."""

_DEEPEST: Final = 100
"""Levels of lists and objects in a request."""

UNIT_KEY: Final = b"strowger replay, unit 1"

_encoder = msgspec.json.Encoder(order="deterministic")
Body = dict[str, object]


class Unusable(ValueError):
    """The request cannot be replayed. field: where it says so. reason: a few words, for counts."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.reason = reason


class ReplayedPrompt(Struct, frozen=True, kw_only=True):
    """One prompt, the same for both arms.

    body:     canonical JSON of the request, without model and limits of the logged exchange.
    unit:     a keyed hash, in hexadecimal, of whose it is.
    expected, schema, test: what the line of a file says about good answers; `None`: nothing.
              schema is JSON.
    """

    api: Api
    body: str
    unit: str
    expected: str | None = None
    schema: str | None = None
    test: str | None = None

    def fields(self) -> Body:
        """Return the fields of the body, to change."""
        return cast("Body", read_json(self.body))

    @property
    def key(self) -> str:
        """The same for the same prompt of the same unit."""
        return digest(self.unit, self.api, self.body)


def digest(*texts: str) -> str:
    """96 bits in hexadecimal."""
    found = blake2b(digest_size=12, key=UNIT_KEY)
    for text in texts:
        found.update(text.encode("utf-8", "surrogatepass"))
        found.update(b"\0")
    return found.hexdigest()


def prompt_of(api: Api, logged: Mapping[str, object], unit: str = "") -> ReplayedPrompt:
    """Return what a request asks. unit: whose it is, if that is known better than by the body.

    Raises Unusable.
    """
    for name in _STATE:
        if logged.get(name) is not None:
            raise Unusable(name, "continues what a server has stored")
    body: Body = {name: value for name, value in logged.items() if name not in _DROPPED}
    if _is_deep(body):
        raise Unusable("", f"has lists or objects in more than {_DEEPEST} levels")
    turns = _turns(api, body)
    if any(isinstance(one, dict) and cast("Body", one).get("type") == _REFERENCE for one in turns):
        raise Unusable(_field(api), "has an item_reference to what a server has stored")
    if not turns and not named_prompt(body)[0]:
        raise Unusable(_field(api), "has nothing to answer")
    return ReplayedPrompt(
        api=api,
        body=_encoder.encode(body).decode(),
        unit=digest(unit or _unit_in(logged) or _beginning(body, turns)),
    )


def request_body(prompt: ReplayedPrompt, model: str, answer_tokens: int) -> tuple[Body, int]:
    """Return the request to a model, and the most tokens of its answer.

    answer_tokens: if the prompt does not say it.
    """
    body = prompt.fields()
    names = _MOST_TOKENS[prompt.api]
    given = [value for name in names if type(value := body.get(name)) is int and value > 0]
    if not given:
        for name in names:
            body.pop(name, None)
        body[names[0]] = answer_tokens
    body |= {"model": model, "stream": False}
    if prompt.api in _PRIORITISED:
        body["priority"] = LOWEST_PRIORITY
    if prompt.api == "responses":
        body["store"] = False
    return body, min(max(given, default=answer_tokens), _LARGEST_ANSWER)


def _is_deep(value: object) -> bool:
    level: list[object] = [value]
    for _ in range(_DEEPEST):
        inner: list[object] = []
        for one in level:
            if isinstance(one, dict):
                inner += cast("Body", one).values()
            elif isinstance(one, list):
                inner += cast("list[object]", one)
        if not inner:
            return False
        level = inner
    return True


def named_prompt(body: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    """Return the name of the prompt that a body names, and its values; "" if it names none.

    Such a request needs no message of its own: the prompt may end with a user section.
    """
    inner = body.get("prompt")
    if isinstance(inner, dict):
        found = cast("Body", inner)
        name, values = found.get("id"), found.get("variables")
    else:
        name, values = body.get("prompt_id"), body.get("prompt_variables")
    if not isinstance(name, str | int) or isinstance(name, bool):
        return "", {}
    return str(name), cast("Body", values) if isinstance(values, dict) else {}


def _field(api: Api) -> str:
    return {"responses": "input", "completions": "prompt"}.get(api, "messages")


def _turns(api: Api, body: Body) -> Sequence[object]:
    """Cut what comes after the last turn that asks for an answer; return the turns that are left.

    A logged conversation can end with the beginning of an answer, which its model continued.
    """
    name = _field(api)
    found = body.get(name)
    if isinstance(found, str):
        return (found,) if found else ()
    if found is None and named_prompt(body)[0]:
        return ()
    if not isinstance(found, list):
        raise Unusable(name, "is missing" if found is None else "is not a list or a text")
    turns = cast("list[object]", found)
    if api == "completions":
        if not all(isinstance(one, str) for one in turns) or len(turns) > 1:
            raise Unusable(name, "has token ids, or several prompts")
        return turns
    while turns and _role(turns[-1]) == "assistant":
        turns = turns[:-1]
    body[name] = turns
    return turns if any(_role(one) in ("user", "tool", "") for one in turns) else ()


def _role(turn: object) -> str:
    if not isinstance(turn, dict):
        raise Unusable("messages", "has an item that is not an object")
    return str(cast("Body", turn).get("role", ""))


def _unit_in(logged: Mapping[str, object]) -> str:
    """Return the user that a request names, or its session; "" for neither."""
    metadata = logged.get("metadata")
    inner = cast("Mapping[str, object]", metadata if isinstance(metadata, dict) else {})
    for value in (
        logged.get("user"),
        logged.get("safety_identifier"),
        inner.get("user_id"),
        inner.get("session_id"),
        logged.get("prompt_cache_key"),
    ):
        if isinstance(value, str) and value:
            return value
    return ""


def _beginning(body: Body, turns: Sequence[object]) -> str:
    """Return what all turns of one conversation have in common: its system and first user text."""
    first = next((one for one in turns if isinstance(one, str) or _role(one) == "user"), None)
    if first is None:
        first = turns[0] if turns else named_prompt(body)
    head = [body.get("system"), body.get("instructions")]
    head += [one for one in turns if not isinstance(one, str) and _role(one) == "system"]
    return _encoder.encode([*head, first]).decode()
