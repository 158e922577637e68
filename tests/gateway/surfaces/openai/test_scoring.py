"""Log probabilities of the local engine over HTTP: one per counted token, as transformers."""

# transformers annotates its models in part only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Mapping
from typing import Protocol, cast

import httpx
import msgspec
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from tests.gateway.serving import Serving

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.modeling_auto import AutoModelForCausalLM
from transformers.models.auto.tokenization_auto import AutoTokenizer

from strowger_gateway.local_engine.bundled import bundled_path
from strowger_gateway.local_engine.text.text_offsets import offsets
from tests.examples import examples

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {here}
models:
  - {{name: tiny, backends: [{{provider: here, model: tiny}}]}}
  - {{name: caller, backends: [{{provider: here, model: caller}}]}}
"""
SUM = "17 + 25 ="
"""The model answers it with a few tokens and its end token."""

HARD_ENDS = "17 + 25 = 42."
"""After it the model's likeliest token is its end token."""


class Encodes(Protocol):
    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]: ...


class Logprobs(Struct, frozen=True, kw_only=True):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class Choice(Struct, frozen=True, kw_only=True):
    index: int
    text: str
    logprobs: Logprobs | None
    finish_reason: str | None


class Usage(Struct, frozen=True, kw_only=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(Struct, frozen=True, kw_only=True):
    choices: list[Choice]
    usage: Usage | None = None


class Scorer:
    """transformers' own log probabilities of the bundled model."""

    def __init__(self) -> None:
        folder = bundled_path("tiny-chat")
        self._encodes = cast(Encodes, AutoTokenizer.from_pretrained(folder))
        self._model = cast(PreTrainedModel, AutoModelForCausalLM.from_pretrained(folder)).eval()

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        return self._encodes.encode(text, add_special_tokens=special)

    def logprobs(self, ids: list[int]) -> list[float]:
        """Of each token but the first, given those before it."""
        with torch.inference_mode():
            logits = cast(torch.Tensor, self._model(torch.tensor([ids])).logits)[0].float()
        rows = torch.log_softmax(logits[:-1], dim=-1)
        picked = rows.gather(1, torch.tensor(ids[1:]).unsqueeze(1))[:, 0]
        return cast("list[float]", picked.tolist())


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    torch.set_num_threads(1)
    return Scorer()


async def completed(gateway: Serving, **body: object) -> Completion:
    plain: dict[str, object] = {"model": "tiny", "temperature": 0, "logprobs": 1}
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as ask:
        answer = await ask.post("/v1/completions", json=plain | body)
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content, type=Completion)


async def streamed(gateway: Serving, **body: object) -> Completion:
    """The chunks of a stream, put together as a client does that knows nothing of tokens."""
    plain: dict[str, object] = {"model": "tiny", "temperature": 0, "logprobs": 1, "stream": True}
    options = {"stream_options": {"include_usage": True}}
    text, finish, usage = "", None, None
    columns = Logprobs(tokens=[], token_logprobs=[], top_logprobs=[], text_offset=[])
    async with (
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as ask,
        ask.stream("POST", "/v1/completions", json=plain | options | body) as answer,
    ):
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = msgspec.json.decode(line.removeprefix("data: "), type=Completion)
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.text
                finish = choice.finish_reason or finish
                if (more := choice.logprobs) is not None:
                    columns.tokens.extend(more.tokens)
                    columns.token_logprobs.extend(more.token_logprobs)
                    columns.text_offset.extend(more.text_offset)
                    tops = more.top_logprobs or [None] * len(more.tokens)
                    (columns.top_logprobs or []).extend(tops)
    assert columns.top_logprobs is not None
    whole = Choice(index=0, text=text, logprobs=columns, finish_reason=finish)
    return Completion(choices=[whole], usage=usage)


def client(gateway: Serving) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="k", max_retries=0)


def scored(completion: Completion) -> tuple[str, Logprobs, Usage]:
    (choice,) = completion.choices
    assert choice.logprobs is not None
    assert completion.usage is not None
    return choice.text, choice.logprobs, completion.usage


def check_offsets(text: str, columns: Logprobs) -> None:
    """Each token whose text is part of the choice's starts where its offset says."""
    places = [*columns.text_offset, len(text)]
    assert places == sorted(places)
    for token, start, end in zip(columns.tokens, places, places[1:], strict=False):
        assert text[start:end] in (token, "")
    shown = [t for t, a, b in zip(columns.tokens, places, places[1:], strict=False) if b > a]
    assert "".join(shown) == text


@pytest.mark.parametrize("ask", [completed, streamed])
@pytest.mark.parametrize(
    "body",
    [
        {"prompt": SUM, "max_tokens": 16},
        {"prompt": SUM, "max_tokens": 16, "echo": True},
        {"prompt": HARD_ENDS, "max_tokens": 1, "echo": True},
        {"prompt": HARD_ENDS, "max_tokens": 1},
        {"prompt": SUM, "max_tokens": 2},
        {"prompt": SUM, "max_tokens": 12, "ignore_eos": True, "echo": True},
        {"prompt": SUM, "max_tokens": 16, "stop": ["2."]},
        {"prompt": SUM, "max_tokens": 16, "stop": ["2."], "echo": True},
        {"prompt": "1 + 1 = 2. " * 30, "max_tokens": 8, "echo": True, "logprobs": 0},
        {"prompt": SUM, "max_tokens": 16, "beam_width": 2},
        {"prompt": SUM, "max_tokens": 16, "best_of": 1, "n": 1, "temperature": 1, "seed": 4},
    ],
    ids=str,
)
async def test_every_token_that_usage_counts_has_a_log_probability(
    gateway: Serving, body: Mapping[str, object], ask: object
) -> None:
    asking = streamed if ask is streamed else completed
    text, columns, usage = scored(await asking(gateway, **body))

    expected = usage.completion_tokens + (usage.prompt_tokens if body.get("echo") else 0)
    assert len(columns.tokens) == expected
    assert len(columns.token_logprobs) == len(columns.text_offset) == expected
    assert text.startswith(str(body["prompt"]) if body.get("echo") else "")
    check_offsets(text, columns)


async def test_an_end_token_is_named_and_is_at_the_end_of_the_text(gateway: Serving) -> None:
    text, columns, usage = scored(await completed(gateway, prompt=SUM, max_tokens=16))

    assert columns.tokens[-1] == "<|end|>"
    assert columns.text_offset[-1] == len(text)
    assert usage.completion_tokens == len(columns.tokens)


async def test_a_begin_token_that_the_text_lacks_moves_no_other(gateway: Serving) -> None:
    text, columns, _ = scored(await completed(gateway, prompt=SUM, max_tokens=1, echo=True))

    assert columns.tokens[0] == "<|bos|>"
    assert columns.text_offset[:3] == [0, 0, 1]
    assert text.startswith(SUM)


async def test_characters_of_several_tokens_have_one_offset(gateway: Serving) -> None:
    text, columns, _ = scored(
        await completed(gateway, prompt="Zürich 🙂 x", max_tokens=1, echo=True)
    )

    places = dict(zip(columns.text_offset, columns.tokens, strict=True))
    assert all(text[place : place + 1] for place in columns.text_offset[:-1])
    assert places[text.index(" x")].strip() in ("", "x")


async def test_streamed_and_whole_answers_have_the_same_log_probabilities(
    gateway: Serving,
) -> None:
    body = {"prompt": SUM, "max_tokens": 16, "echo": True, "logprobs": 3}

    whole, stream = await completed(gateway, **body), await streamed(gateway, **body)

    assert scored(whole)[0] == scored(stream)[0]
    assert scored(whole)[1].tokens == scored(stream)[1].tokens
    assert scored(whole)[1].text_offset == scored(stream)[1].text_offset
    assert scored(whole)[1].token_logprobs == pytest.approx(
        scored(stream)[1].token_logprobs, abs=1e-5
    )


@pytest.mark.parametrize("stop", [None, ["2."]])
async def test_a_chats_log_probabilities_are_as_many_as_its_tokens(
    gateway: Serving, stop: list[str] | None
) -> None:
    async with client(gateway) as ask:
        answer = await ask.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": "What is 17 + 25?"}],
            logprobs=True,
            top_logprobs=2,
            temperature=0,
            stop=stop,
        )

    logprobs, usage = answer.choices[0].logprobs, answer.usage
    assert logprobs is not None
    assert logprobs.content is not None
    assert usage is not None
    assert len(logprobs.content) == usage.completion_tokens
    shown = b"".join(bytes(one.bytes or []) for one in logprobs.content).decode()
    assert shown.startswith(answer.choices[0].message.content or "")
    if stop is None:
        assert shown == answer.choices[0].message.content
        assert (logprobs.content[-1].token, logprobs.content[-1].bytes) == ("<|end|>", [])


async def test_a_streamed_chats_log_probabilities_are_as_many_as_its_tokens(
    gateway: Serving,
) -> None:
    """Also where the engine reads the text for tool calls."""
    tokens, counted = 0, None

    async with client(gateway) as ask:
        stream = await ask.chat.completions.create(
            model="caller",
            messages=[{"role": "user", "content": "go on"}],
            logprobs=True,
            max_tokens=12,
            seed=3,
            stream=True,
            stream_options={"include_usage": True},
            tools=[{"type": "function", "function": {"name": "f"}}],
        )
        async for chunk in stream:
            counted = chunk.usage.completion_tokens if chunk.usage else counted
            for choice in chunk.choices:
                if choice.logprobs is not None and choice.logprobs.content is not None:
                    tokens += len(choice.logprobs.content)

    assert tokens == counted


@pytest.mark.parametrize("tokens", [0, 1])
@pytest.mark.parametrize("as_ids", [False, True])
@pytest.mark.parametrize(
    ("context", "continuation"),
    [("17 + 25 =", " 42."), ("17 + 25 =", " 43."), ("What is", " 9 + 9? Zürich 🙂")],
)
async def test_a_continuations_log_likelihood_is_transformers_own(
    gateway: Serving, scorer: Scorer, context: str, continuation: str, as_ids: bool, tokens: int
) -> None:
    """As evaluation harnesses ask for it: the prompt comes back with its log probabilities."""
    ids = scorer.encode(context + continuation)
    prompt = ids if as_ids else context + continuation

    _, columns, usage = scored(
        await completed(gateway, prompt=prompt, max_tokens=tokens, echo=True)
    )

    expected = scorer.logprobs(ids)
    assert usage.prompt_tokens == len(ids)
    assert usage.completion_tokens == tokens
    found = columns.token_logprobs[: len(ids)]
    assert found[0] is None
    assert found[1:] == pytest.approx(expected, abs=1e-4)
    assert len(columns.token_logprobs) == len(ids) + tokens


@pytest.mark.parametrize("ask", [completed, streamed])
async def test_no_tokens_and_an_echo_score_a_prompt(gateway: Serving, ask: object) -> None:
    asking = streamed if ask is streamed else completed
    answer = await asking(gateway, prompt=HARD_ENDS, max_tokens=0, echo=True)

    text, columns, usage = scored(answer)
    assert text == HARD_ENDS
    assert answer.choices[0].finish_reason == "length"
    assert usage.completion_tokens == 0
    assert usage.total_tokens == usage.prompt_tokens == len(columns.tokens)
    assert columns.token_logprobs[0] is None
    assert all(value is not None and value <= 0 for value in columns.token_logprobs[1:])


async def test_several_prompts_are_scored_in_one_request(gateway: Serving) -> None:
    both = await completed(gateway, prompt=[SUM, HARD_ENDS], max_tokens=0, echo=True)
    alone = [
        await completed(gateway, prompt=prompt, max_tokens=0, echo=True)
        for prompt in (SUM, HARD_ENDS)
    ]

    assert [choice.text for choice in both.choices] == [SUM, HARD_ENDS]
    for choice, one in zip(both.choices, alone, strict=True):
        assert choice.logprobs is not None
        expected = scored(one)[1].token_logprobs[1:]
        assert choice.logprobs.token_logprobs[1:] == pytest.approx(expected, abs=1e-4)


async def test_without_log_probabilities_no_tokens_and_an_echo_give_the_prompt(
    gateway: Serving,
) -> None:
    answer = await completed(gateway, prompt=SUM, max_tokens=0, echo=True, logprobs=None)

    (choice,) = answer.choices
    assert (choice.text, choice.logprobs, choice.finish_reason) == (SUM, None, "length")


async def test_no_tokens_without_an_echo_are_refused_by_name(gateway: Serving) -> None:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as ask:
        answer = await ask.post(
            "/v1/completions", json={"model": "tiny", "prompt": SUM, "max_tokens": 0}
        )

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "max_tokens"


PIECE = st.one_of(
    st.text(min_size=1, max_size=6).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.binary(min_size=1, max_size=3),
)


@given(st.lists(st.tuples(st.text(max_size=8), st.booleans()), max_size=12))
@settings(max_examples=examples(60), deadline=None)
def test_offsets_of_tokens_that_make_up_a_text_are_exact(parts: list[tuple[str, bool]]) -> None:
    """A part that is marked is a control token that the text does not contain."""
    shown = [text for text, control in parts if not control]
    pieces = [b"<|\xff|>" if control else text.encode() for text, control in parts]

    found = offsets("".join(shown), pieces, [control for _, control in parts])

    expected, at = list[int](), 0
    for text, control in parts:
        expected.append(at)
        at += 0 if control else len(text)
    assert found == expected


@given(st.text(max_size=30), st.lists(st.tuples(PIECE, st.booleans()), max_size=12))
@settings(max_examples=examples(60), deadline=None)
def test_offsets_never_leave_the_text_and_never_go_back(
    text: str, parts: list[tuple[bytes, bool]]
) -> None:
    found = offsets(text, [piece for piece, _ in parts], [control for _, control in parts])

    assert len(found) == len(parts)
    assert found == sorted(found)
    assert all(0 <= place <= len(text) for place in found)
