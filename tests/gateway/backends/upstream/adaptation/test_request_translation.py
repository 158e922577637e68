"""Requests and answers are translated between text and tokens for backends of the other kind."""

from collections.abc import Sequence

import msgspec
import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.upstream.adaptation.chat_template import ChatTemplate
from strowger_gateway.gateway.backends.upstream.adaptation.detokenizing import Detokenizing
from strowger_gateway.gateway.backends.upstream.adaptation.request_translation import (
    RequestTranslation,
)
from strowger_gateway.gateway.backends.upstream.adaptation.tokenizer import TextTokenizer
from strowger_gateway.gateway.backends.upstream.base import Upstream
from strowger_gateway.schemas.errors import InvalidRequest, UpstreamFailed
from strowger_gateway.schemas.events import Event, Finished, TextDelta, TokenLogprob, Tokens, Usage
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from tests.gateway.backends.upstream.adaptation.scripted import (
    CALL,
    Scripted,
    Step,
    answer_of,
    batches_of,
    text_answer,
    token_answer,
)
from tests.gateway.backends.upstream.adaptation.vocabularies import byte_level, family, reads

pytestmark = pytest.mark.anyio

SAMPLING = frozenset({"max_tokens", "temperature", "top_k", "seed", "stop", "logprobs"})
TEXT = Supports(completion=SAMPLING | {"user", "suffix"})
IDS = Supports(completion=SAMPLING | {"prompt.tokens"})
TOKENS = Supports(tokens=SAMPLING | {"end_id", "priority"})
SILENT = msgspec.structs.replace(TOKENS, text_of_tokens=False)
BOTH = Supports(completion=SAMPLING | {"suffix"}, tokens=SAMPLING)

TEMPLATE = "{{ bos_token }}{% for m in messages %}<|user|>{{ m.content }}{% endfor %}<|assistant|>"
HELLO = (Message(role="user", content="the dog"),)
SAMPLED = Sampling(max_tokens=7, seed=3, top_k=5)


def chatty() -> TextTokenizer:
    """Byte-level, with a template that begins with the begin token."""
    tokenizer = reads(byte_level())
    tokenizer.chat = ChatTemplate(TEMPLATE, {"bos_token": "<s>"})
    return tokenizer


def says(*deltas: str) -> list[list[Event]]:
    return text_answer(*deltas)


def only(far: Scripted) -> GenerateRequest:
    (request,) = far.asked
    return request


async def test_a_token_request_reaches_a_backend_of_text_as_text() -> None:
    tokenizer = family("byte-level")
    far = Scripted(TEXT, lambda _: says(" the", " lazy", " dog."))
    ids = tokenizer.encode("the quick fox")

    answer = await answer_of(
        RequestTranslation(far, tokenizer).generate(
            TokenRequest(model="m", tokens=ids, sampling=SAMPLED, stream=True, timeout_s=3.0), CALL
        )
    )

    assert only(far) == CompletionRequest(
        model="m", prompts=("the quick fox",), sampling=SAMPLED, stream=True, timeout_s=3.0
    )
    choice = answer.choices[0]
    assert tuple(choice.token_ids) == tokenizer.encode(" the lazy dog.", special=False)
    assert choice.text == " the lazy dog."
    assert answer.usage == Usage(prompt_tokens=3, completion_tokens=5, total_tokens=8)


async def test_a_token_request_keeps_its_ids_where_the_backend_reads_ids() -> None:
    far = Scripted(IDS, lambda _: says("x"))

    await answer_of(
        RequestTranslation(far, family("byte-level")).generate(
            TokenRequest(model="m", tokens=(9, 9, 9)), CALL
        )
    )

    assert only(far) == CompletionRequest(model="m", prompts=((9, 9, 9),))


async def test_tokens_that_text_cannot_say_are_refused_before_anything_is_sent() -> None:
    tokenizer = family("byte-level")
    far = Scripted(TEXT, lambda _: says("x"))
    ids = tokenizer.encode("the dog", special=False)

    with pytest.raises(InvalidRequest, match="tokens: the backend accepts text") as caught:
        await answer_of(
            RequestTranslation(far, tokenizer).generate(TokenRequest(model="m", tokens=ids), CALL)
        )

    assert caught.value.param == "tokens"
    assert far.asked == []


async def test_tokens_are_counted_where_the_backend_does_not() -> None:
    tokenizer = family("byte-level")
    far = Scripted(TEXT, lambda _: [[TextDelta(text=" the dog"), Finished(reason="stop")]])

    answer = await answer_of(
        RequestTranslation(far, tokenizer).generate(
            TokenRequest(model="m", tokens=tokenizer.encode("x")), CALL
        )
    )

    generated = len(answer.choices[0].token_ids)
    assert answer.usage == Usage(
        prompt_tokens=2, completion_tokens=generated, total_tokens=2 + generated
    )


async def test_the_time_of_a_token_is_measured_from_the_one_before() -> None:
    def slowly(_: GenerateRequest) -> Sequence[Step]:
        return [0.05, [TextDelta(text="the dog")], 0.03, [TextDelta(text=" x"), *says()[-1]]]

    far = Scripted(TEXT, slowly)
    tokenizer = family("byte-level")

    batches = await batches_of(
        RequestTranslation(far, tokenizer).generate(
            TokenRequest(model="m", tokens=tokenizer.encode("x")), CALL
        )
    )

    times = [event.elapsed_ms for batch in batches for event in batch if isinstance(event, Tokens)]
    assert times[0] >= 45
    assert 75 <= sum(times) < 1000


async def test_log_probabilities_name_their_tokens() -> None:
    tokenizer = family("byte-level")
    ids = tokenizer.encode("the", special=False)
    scored = TokenLogprob(token="the", logprob=-0.5, top=(TokenLogprob(token="a", logprob=-1.0),))
    far = Scripted(TEXT, lambda _: [[TextDelta(text="the", logprobs=(scored,)), *says()[-1]]])

    answer = await answer_of(
        RequestTranslation(far, tokenizer).generate(
            TokenRequest(model="m", tokens=tokenizer.encode("x"), sampling=Sampling(logprobs=True)),
            CALL,
        )
    )

    choice = answer.choices[0]
    assert tuple(choice.token_ids) == ids
    assert [one.id for one in choice.logprobs] == list(ids)
    assert choice.logprobs[0].top[0].id == tokenizer.encode("a", special=False)[0]


async def test_text_before_log_probabilities_keeps_its_place() -> None:
    tokenizer = family("byte-level")
    scored = TokenLogprob(token="the", logprob=-0.5)
    script: list[list[Event]] = [
        [TextDelta(text="a dog ")],
        [TextDelta(text="the", logprobs=(scored,)), *says()[-1]],
    ]

    answer = await answer_of(
        RequestTranslation(Scripted(TEXT, lambda _: script), tokenizer).generate(
            TokenRequest(model="m", tokens=(1,), sampling=Sampling(logprobs=True)), CALL
        )
    )

    assert tokenizer.decode(answer.choices[0].token_ids) == "a dog the"


async def test_a_token_that_the_tokenizer_does_not_have_is_an_error() -> None:
    odd = TokenLogprob(token="no such token", logprob=-1.0)
    far = Scripted(TEXT, lambda _: [[TextDelta(text="x", logprobs=(odd,))]])

    with pytest.raises(UpstreamFailed, match="contain token 'no such token'"):
        await answer_of(
            RequestTranslation(far, family("byte-level")).generate(
                TokenRequest(model="m", tokens=(1,), sampling=Sampling(logprobs=True)), CALL
            )
        )


@pytest.mark.parametrize("name", ["byte-level", "metaspace"])
async def test_a_text_reaches_a_backend_of_tokens(name: str) -> None:
    tokenizer = family(name)
    answered = tokenizer.encode("the lazy dog 你好", special=False)
    far = Scripted(SILENT, lambda _: token_answer(*((id, "") for id in answered)))

    answer = await answer_of(
        RequestTranslation(Detokenizing(far, tokenizer), tokenizer).generate(
            CompletionRequest(model="m", prompts=("the quick fox",), sampling=SAMPLED), CALL
        )
    )

    request = only(far)
    assert isinstance(request, TokenRequest)
    assert request.tokens == tokenizer.encode("the quick fox")
    assert request.sampling == msgspec.structs.replace(SAMPLED, end_id=tokenizer.end)
    assert (answer.choices[0].text or "").strip() == "the lazy dog 你好"


async def test_a_completion_without_a_limit_is_as_long_as_the_dialect_says() -> None:
    far = Scripted(TOKENS, lambda _: token_answer((5, "x")))

    await answer_of(
        RequestTranslation(far, family("byte-level")).generate(
            CompletionRequest(model="m", prompts=("a",)), CALL
        )
    )

    assert only(far).sampling.max_tokens == 16


async def test_a_conversation_becomes_the_text_of_its_template_and_begins_once() -> None:
    far = Scripted(TEXT, lambda _: says("Woof"))
    request = ChatRequest(model="m", messages=HELLO, sampling=SAMPLED, user="ann", stream=True)

    answer = await answer_of(RequestTranslation(far, chatty()).generate(request, CALL))

    assert only(far) == CompletionRequest(
        model="m",
        prompts=("<|user|>the dog<|assistant|>",),
        sampling=SAMPLED,
        user="ann",
        stream=True,
    )
    assert answer.choices[0].text == "Woof"


@pytest.mark.parametrize("supports", [IDS, TOKENS, BOTH])
async def test_a_conversation_becomes_the_tokens_of_its_template(supports: Supports) -> None:
    tokenizer = chatty()
    far = Scripted(
        supports,
        lambda request: (
            says("Woof") if isinstance(request, CompletionRequest) else token_answer((5, "Woof"))
        ),
    )

    answer = await answer_of(
        RequestTranslation(far, tokenizer).generate(ChatRequest(model="m", messages=HELLO), CALL)
    )

    request = only(far)
    sent = request.tokens if isinstance(request, TokenRequest) else getattr(request, "prompts")[0]  # noqa: B009
    assert sent == tokenizer.encode("<s><|user|>the dog<|assistant|>", special=False)
    assert sent[:2] == (1, 3)
    assert answer.choices[0].text == "Woof"


async def test_a_prompt_is_put_into_the_template_on_request() -> None:
    far = Scripted(TEXT, lambda _: says("Woof"))
    request = CompletionRequest(model="m", prompts=("the dog",), template=True)

    await answer_of(RequestTranslation(far, chatty()).generate(request, CALL))

    assert only(far) == CompletionRequest(model="m", prompts=("<|user|>the dog<|assistant|>",))


async def test_tokens_are_never_put_into_a_template() -> None:
    request = CompletionRequest(model="m", prompts=((1, 2),), template=True)

    with pytest.raises(InvalidRequest, match="prompt: tokens cannot be put into a chat template"):
        await answer_of(
            RequestTranslation(Scripted(TEXT, lambda _: []), chatty()).generate(request, CALL)
        )


async def test_a_prompt_of_tokens_takes_the_backends_own_way_for_tokens() -> None:
    far = Scripted(BOTH, lambda _: token_answer((5, "x")))

    answer = await answer_of(
        RequestTranslation(far, family("byte-level")).generate(
            CompletionRequest(model="m", prompts=((9, 9),), sampling=SAMPLED), CALL
        )
    )

    request = only(far)
    assert isinstance(request, TokenRequest)
    assert request.tokens == (9, 9)
    assert answer.choices[0].text == "x"


async def test_a_prompt_of_tokens_becomes_text_where_only_text_can_do_the_rest() -> None:
    tokenizer = family("byte-level")
    far = Scripted(BOTH, lambda _: says("x"))
    prompt = tokenizer.encode("the dog")

    await answer_of(
        RequestTranslation(far, tokenizer).generate(
            CompletionRequest(model="m", prompts=(prompt,), suffix="!"), CALL
        )
    )

    assert only(far) == CompletionRequest(model="m", prompts=("the dog",), suffix="!")


async def test_inputs_to_embed_become_text() -> None:
    tokenizer = family("byte-level")
    far = Scripted(Supports(embeddings=frozenset()), lambda _: [])

    await RequestTranslation(far, tokenizer).embed(
        EmbeddingsRequest(model="m", inputs=("a", tokenizer.encode("the dog"))), CALL
    )

    assert far.embedded[0].inputs == ("a", "the dog")


async def test_what_a_backend_reads_itself_reaches_it_unchanged() -> None:
    everything = Supports(chat=SAMPLING, completion=SAMPLING | {"prompt.tokens"}, tokens=SAMPLING)
    far = Scripted(everything, lambda _: says("x"))
    requests: tuple[GenerateRequest, ...] = (
        ChatRequest(model="m", messages=HELLO),
        CompletionRequest(model="m", prompts=("a", (1, 2)), batch=True),
        TokenRequest(model="m", tokens=(1, 2)),
    )

    for request in requests:
        await answer_of(RequestTranslation(far, chatty()).generate(request, CALL))

    assert tuple(far.asked) == requests


@pytest.mark.parametrize(
    ("own", "tokenizer", "offered"),
    [
        (TEXT, "byte-level", {"completion", "tokens"}),
        (TOKENS, "byte-level", {"completion", "tokens"}),
        (TEXT, "tiny-chat", {"chat", "completion", "tokens"}),
        (TEXT, "word-piece", {"completion"}),
        (Supports(chat=frozenset()), "tiny-chat", {"chat"}),
        (Supports(embeddings=frozenset()), "tiny-chat", {"embeddings"}),
    ],
)
def test_what_can_be_translated_is_offered(
    own: Supports, tokenizer: str, offered: set[str]
) -> None:
    supports = RequestTranslation(Scripted(own, lambda _: []), family(tokenizer)).supports

    tasks = ("chat", "completion", "tokens", "embeddings")
    assert {task for task in tasks if getattr(supports, task) is not None} == offered


def test_what_a_translation_loses_is_not_offered() -> None:
    supports = RequestTranslation(Scripted(TEXT, lambda _: []), family("tiny-chat")).supports

    assert supports.tokens == SAMPLING
    assert supports.chat == SAMPLING | {"user"}
    assert supports.completion == SAMPLING | {"user", "suffix", "prompt.tokens", "template"}


async def test_ids_get_their_text_one_token_at_a_time() -> None:
    tokenizer = family("byte-level")
    ids = (*tokenizer.encode(" the 你好", special=False), 2)
    far = Scripted(SILENT, lambda _: [[Tokens(ids=ids, elapsed_ms=8.0)], *token_answer()[-1:]])
    upstream: Upstream = Detokenizing(far, tokenizer)

    batches = await batches_of(upstream.generate(TokenRequest(model="m", tokens=(1,)), CALL))

    tokens = [event for batch in batches for event in batch if isinstance(event, Tokens)]
    assert [event.ids for event in tokens] == [(id,) for id in ids]
    assert "".join(event.text for event in tokens) == " the 你好"
    assert [event.elapsed_ms for event in tokens] == [8.0] + [0.0] * (len(ids) - 1)


async def test_a_backends_own_text_is_kept() -> None:
    far = Scripted(TOKENS, lambda _: token_answer((30, ""), (31, "Its own"), (32, " words")))

    answer = await answer_of(
        Detokenizing(far, family("byte-level")).generate(TokenRequest(model="m", tokens=(1,)), CALL)
    )

    assert answer.choices[0].text == "Its own words"


async def test_half_a_character_at_the_end_is_shown_as_such() -> None:
    tokenizer = family("byte-level")
    first = tokenizer.encode("\u0489", special=False)[0]
    far = Scripted(SILENT, lambda _: token_answer((first, "")))

    answer = await answer_of(
        Detokenizing(far, tokenizer).generate(TokenRequest(model="m", tokens=(1,)), CALL)
    )

    assert answer.choices[0].text == "\ufffd"


async def test_log_probabilities_without_names_get_them() -> None:
    tokenizer = family("byte-level")
    ids = tokenizer.encode("the dog", special=False)
    scores = tuple(TokenLogprob(token="", logprob=-1.0) for _ in ids)
    far = Scripted(SILENT, lambda _: [[Tokens(ids=ids, logprobs=scores)], *token_answer()[-1:]])

    answer = await answer_of(
        Detokenizing(far, tokenizer).generate(TokenRequest(model="m", tokens=(1,)), CALL)
    )

    assert [(one.id, one.token) for one in answer.choices[0].logprobs] == [
        (id, tokenizer.name(id)[0]) for id in ids
    ]
