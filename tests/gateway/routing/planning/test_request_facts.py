"""What rules and policies read from a request."""

from msgspec import Raw

from strowger_gateway.gateway.config.schema.config import WhenRule
from strowger_gateway.gateway.routing.planning.request_facts import (
    RequestFacts,
    estimated_tokens,
    prefix_of,
    unit_of,
)
from strowger_gateway.gateway.routing.planning.when_rules import matches
from strowger_gateway.schemas.messages import FunctionTool, ImagePart, Message
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    TokenRequest,
)

FACTS = RequestFacts(caller="team-a", headers=[(b"x-tier", b"premium"), (b"x-session-id", b"s1")])
HELLO = (Message(role="user", content="hello there"),)


def chat(
    *messages: Message, user: str = "ada", metadata: bytes = b'{"team":"red-1","n":1}'
) -> ChatRequest:
    return ChatRequest(
        model="m", messages=messages or HELLO, user=user, metadata=Raw(metadata), stream=True
    )


def rule(
    header: dict[str, str] | None = None,
    key: str | None = None,
    metadata: dict[str, str] | None = None,
    tokens_over: int | None = None,
    features: tuple[str, ...] = (),
) -> WhenRule:
    return WhenRule(
        header=header or {},
        key=key,
        metadata=metadata or {},
        tokens_over=tokens_over,
        features=features,
        backends=("a/m",),
    )


def test_a_unit_is_the_user_the_key_or_a_header() -> None:
    request = chat()

    found = [unit_of(request, FACTS, by) for by in ("user", "api_key", "header:X-Session-Id")]

    assert found == ["ada", "team-a", "s1"]
    assert unit_of(request, FACTS, "header:x-other") == ""
    assert unit_of(TokenRequest(model="m", tokens=(1,)), FACTS, "user") == ""


def test_a_rule_matches_only_if_all_of_its_conditions_do() -> None:
    both = rule(header={"X-Tier": "premium"}, key="team-*")

    assert matches(both, chat(), FACTS)
    assert not matches(both, chat(), RequestFacts(caller="team-a"))
    assert not matches(both, chat(), RequestFacts(caller="guest", headers=FACTS.headers))


def test_a_rule_matches_metadata_and_only_its_strings() -> None:
    assert matches(rule(metadata={"team": "red-*"}), chat(), FACTS)
    assert not matches(rule(metadata={"n": "1"}), chat(), FACTS)
    assert not matches(rule(metadata={"team": "red-1"}), chat(metadata=b"[]"), FACTS)
    embeddings = EmbeddingsRequest(model="m", inputs=("x",))
    assert not matches(rule(metadata={"team": "red-1"}), embeddings, FACTS)
    deep = chat(metadata=b'{"a":' + b"[" * 2000 + b"]" * 2000 + b"}")
    assert not matches(rule(metadata={"team": "red-1"}), deep, FACTS)


def test_a_rule_matches_the_features_of_a_request() -> None:
    picture = ImagePart(url="https://pictures.test/1.png")
    with_image = chat(Message(role="user", content=(picture,)))

    assert matches(rule(features=("messages.image", "stream")), with_image, FACTS)
    assert not matches(rule(features=("messages.image",)), chat(), FACTS)
    assert not matches(rule(features=("tools",)), with_image, FACTS)


def test_a_rule_matches_the_prompts_length() -> None:
    long = CompletionRequest(model="m", prompts=("x" * 400,))

    assert matches(rule(tokens_over=99), long, FACTS)
    assert not matches(rule(tokens_over=100), long, FACTS)
    assert matches(rule(tokens_over=2), TokenRequest(model="m", tokens=(1, 2, 3)), FACTS)


def test_estimated_tokens_include_the_schemas_of_tools() -> None:
    tool = FunctionTool(name="f", parameters=Raw(b'{"type":"object"}' + b" " * 383))
    bare = chat()

    more = estimated_tokens(ChatRequest(model="m", messages=HELLO, tools=(tool,)))

    assert more == estimated_tokens(bare) + 100


def test_turns_of_one_conversation_share_a_prefix_and_other_keys_and_prompts_do_not() -> None:
    system = Message(role="system", content="Be brief.")
    later = (*HELLO, Message(role="assistant", content="hi"), Message(role="user", content="and?"))

    first = prefix_of(chat(system, *HELLO), FACTS)

    assert prefix_of(chat(system, *later), FACTS) == first
    assert prefix_of(chat(system, *HELLO), RequestFacts(caller="team-b")) != first
    assert prefix_of(chat(*HELLO), FACTS) != first
