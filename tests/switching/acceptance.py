"""What a vendor refuses of a conversation that another one has begun.

The oracle knows the vendors' schemas and rules (tests/oracle). Here is what a single request does
not show: that a proof of reasoning is one that the vendor has given out. And vendors that ignore a
member which they do not know refuse it here, so that none is sent to them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from strowger_gateway.adapters.gemini.messages import SKIPPED
from strowger_gateway.schemas.messages import CLAUDE, GEMINI, OPENAI
from tests.gateway.backends.vendors.dialect import Json, dicts, inner
from tests.oracle.rules import faults_of
from tests.oracle.schemas import schema_faults
from tests.oracle.sent import api_of, read
from tests.stand_ins.provider import Received

Issued = Mapping[str, Collection[str]]
"""By format: the signatures and encrypted reasoning that vendors have given out."""

Faults = Iterator[str]
Proofs = Callable[[Json, Issued], Faults]


class Members(Struct, frozen=True, kw_only=True):
    """What a vendor of OpenAI's dialect documents, by role, and by type of a content part."""

    roles: Mapping[str, frozenset[str]]
    parts: Mapping[str, frozenset[str]]


def faults(vendor: str, request: Received, proofs: Proofs, issued: Issued) -> Faults:
    """Yield what a vendor would not accept. vendor: the adapter's name."""
    api = api_of(request.path, request.body)
    assert api is not None, request.path
    sent = read(api, vendor, request.path, request.headers, request.body)
    for at, says in schema_faults(sent):
        yield f"{at}: {says}"
    for rule, at, says in faults_of(sent):
        yield f"{rule}: {at}: {says}"
    if vendor in DOCUMENTED:
        yield from _undocumented(request.json, DOCUMENTED[vendor])
    yield from proofs(request.json, issued)


def none(_body: Json, _issued: Issued) -> Faults:
    """The vendor's answers have no proofs, or it does not check them."""
    return iter(())


def claude(body: Json, issued: Issued) -> Faults:
    """Anthropic's Messages API, also at Vertex AI."""
    for place, turn in enumerate(dicts(body["messages"])):
        for at, block in enumerate(dicts(turn["content"])):
            where, proof = f"messages[{place}].content[{at}]", ""
            match block["type"]:
                case "thinking":
                    proof = block["signature"]
                case "redacted_thinking":
                    proof = block["data"]
                case _:
                    continue
            if proof not in issued[CLAUDE]:
                yield f"{where}: Invalid `signature` in `thinking` block"


def converse(body: Json, issued: Issued) -> Faults:
    """Claude at Bedrock."""
    for place, turn in enumerate(dicts(body["messages"])):
        for at, block in enumerate(dicts(turn["content"])):
            thought = inner(block, "reasoningContent")
            signature = inner(thought, "reasoningText").get("signature")
            proof = thought.get("redactedContent", signature)
            if thought and proof not in issued[CLAUDE]:
                yield f"messages[{place}].content[{at}]: Invalid `signature` in `thinking` block"


def google(body: Json, issued: Issued) -> Faults:
    """Gemini 3: a turn's first call needs a signature, and every signature must be Google's."""
    made = {*issued[GEMINI], SKIPPED}
    for place, turn in enumerate(dicts(body["contents"])):
        parts = dicts(turn["parts"])
        for at, part in enumerate(parts):
            if "thoughtSignature" in part and part["thoughtSignature"] not in made:
                yield f"contents[{place}].parts[{at}]: Invalid thought signature"
        calls = [part for part in parts if "functionCall" in part]
        if calls and "thoughtSignature" not in calls[0]:
            yield f"contents[{place}]: Function call is missing a thought_signature"


def items(body: Json, issued: Issued) -> Faults:
    """OpenAI's Responses API: an id says of what kind its item is, and reasoning is its own."""
    for place, item in enumerate(dicts(body["input"])):
        prefix = _PREFIXES.get(str(item.get("type")), "")
        if not str(item.get("id", prefix)).startswith(prefix):
            yield f"input[{place}].id: Expected an ID that begins with {prefix!r}"
        if item.get("encrypted_content") not in (None, *issued[OPENAI]):
            yield f"input[{place}].encrypted_content: could not be verified"


_PREFIXES: Final = {"message": "msg_", "reasoning": "rs_", "function_call": "fc_"}


def _undocumented(body: Json, members: Members) -> Faults:
    for place, one in enumerate(dicts(body["messages"])):
        where = f"messages[{place}]"
        yield from _unknown(where, one, members.roles[str(one["role"])])
        for at, part in enumerate(dicts(one.get("content"))):
            kind = str(part["type"])
            if kind in members.parts:
                yield from _unknown(f"{where}.content[{at}]", part, members.parts[kind])
            else:
                yield f"{where}.content[{at}].type: {kind!r} is unknown"
        for at, call in enumerate(dicts(one.get("tool_calls"))):
            yield from _unknown(f"{where}.tool_calls[{at}]", call, ("id", "type", "function"))
            function = inner(call, "function")
            yield from _unknown(f"{where}.tool_calls[{at}].function", function, _FUNCTION)


_FUNCTION: Final = ("name", "arguments")


def _unknown(where: str, value: Json, known: Collection[str]) -> Faults:
    yield from (f"{where}.{name}: unknown member" for name in value if name not in known)


def _members(assistant: Sequence[str], parts: Mapping[str, Sequence[str]]) -> Members:
    """Return what all have, with more members of an assistant's message, and more parts."""
    both = frozenset({"role", "content", "name"})
    of_all = {"text": ("type", "text"), "image_url": ("type", "image_url")}
    return Members(
        roles={
            "system": both,
            "user": both,
            "assistant": both | {"tool_calls"} | set(assistant),
            "tool": both | {"tool_call_id"},
        },
        parts={kind: frozenset(names) for kind, names in {**of_all, **parts}.items()},
    )


DOCUMENTED: Final[Mapping[str, Members]] = {
    # https://api-docs.deepseek.com/api/create-chat-completion
    "deepseek": _members(("prefix", "reasoning_content"), {}),
    # https://openrouter.ai/docs/api-reference/chat-completion
    "openrouter": _members(
        (
            "refusal",
            "reasoning",
            "reasoning_content",
            "reasoning_details",
            "annotations",
            "images",
        ),
        {},
    ),
    # vLLM has OpenAI's types (vllm/entrypoints/chat_utils.py) with reasoning.
    "vllm": _members(("refusal", "reasoning", "reasoning_content"), {}),
    # https://docs.databricks.com/aws/en/machine-learning/foundation-model-apis/api-reference
    "databricks": _members((), {"reasoning": ("type", "summary")}),
}
