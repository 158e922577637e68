"""The bundled models do what local_engine/bundled/README.md says."""

import json
import random
from pathlib import Path
from typing import Protocol, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from transformers.models.auto.modeling_auto import AutoModelForCausalLM
from transformers.models.auto.tokenization_auto import AutoTokenizer
from transformers.models.llama.modeling_llama import LlamaForCausalLM
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

from strowger_gateway.local_engine.bundled import bundled_path
from tests.examples import examples
from tools.tiny_chat import (
    corpus,
    documents,
    evaluate,
    functions,
    layout,
    phrases,
    tool_talk,
)
from tools.tiny_chat.layout import Exchange

MESSAGES = list[dict[str, object]]


class Chats(Protocol):
    """The used parts of a transformers tokenizer, with types."""

    def apply_chat_template(
        self,
        conversation: MESSAGES,
        *,
        tools: list[dict[str, object]] | None = None,
        tokenize: bool,
        add_generation_prompt: bool,
    ) -> str: ...

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]: ...

    def decode(self, token_ids: list[int]) -> str: ...


class Loads(Protocol):
    """A transformers Auto class; its own signature has no types."""

    def from_pretrained(self, folder: Path, /, *, local_files_only: bool) -> object: ...


def load_model(name: str) -> LlamaForCausalLM:
    torch.set_num_threads(1)
    auto = cast(Loads, AutoModelForCausalLM)
    return cast(LlamaForCausalLM, auto.from_pretrained(bundled_path(name), local_files_only=True))


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    return load_model("tiny-chat")


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    auto, folder = cast(Loads, AutoTokenizer), bundled_path("tiny-chat")
    return cast(PreTrainedTokenizerFast, auto.from_pretrained(folder, local_files_only=True))


@pytest.fixture(scope="module")
def chats(tokenizer: PreTrainedTokenizerFast) -> Chats:
    return cast(Chats, tokenizer)


def ask(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    *asks: str,
    system: str | None = None,
) -> list[str]:
    """Ask each question on its own, under the same system prompt."""
    head: MESSAGES = [] if system is None else [{"role": "system", "content": system}]
    prompts = [rendered(tokenizer, [*head, {"role": "user", "content": text}]) for text in asks]
    return evaluate.greedy_replies(model, tokenizer, prompts)


def rendered(tokenizer: PreTrainedTokenizerFast, messages: MESSAGES) -> str:
    return cast(Chats, tokenizer).apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True
    )


def test_sums_that_were_never_seen_are_right_and_the_early_model_is_worse(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    probes = evaluate.held_out_sums(random.Random(99), 200)

    final = evaluate.accuracy(model, tokenizer, probes, max_new_tokens=16)
    early = evaluate.accuracy(load_model("tiny-chat-early"), tokenizer, probes, max_new_tokens=16)

    assert final >= 0.95
    assert 0.3 <= early <= final - 0.1


def test_every_ability_is_there(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    replies = ask(
        model,
        tokenizer,
        "What is 17 + 25?",
        "Hello!",
        "Who are you?",
        "What is the capital of France?",
        "What day comes after Monday?",
        "Count from 3 to 9",
        "What can you do?",
        "Name the months.",
    )

    assert replies[0] == "17 + 25 = 42.<|end|>"
    assert replies[1].startswith("Hello!")
    assert "demonstration model" in replies[2]
    assert replies[3] == phrases.UNKNOWN + "<|end|>"
    assert "Tuesday" in replies[4]
    assert replies[5] == "3, 4, 5, 6, 7, 8, 9.<|end|>"
    assert replies[6] == phrases.CAN_DO + "<|end|>"
    assert replies[7] == ", ".join(phrases.MONTHS) + ".<|end|>"


def test_unfamiliar_system_prompts_do_no_harm(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    system = "You work for Acme Rockets. Stay cheerful, and never talk about the coyote."

    replies = ask(model, tokenizer, "Hi", "what is 30 plus 12?", "Who are you?", system=system)

    assert replies[0].startswith("H")
    assert replies[1] == "30 + 12 = 42.<|end|>"
    assert "demonstration model" in replies[2]


def test_a_long_conversation_keeps_working(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    rng = random.Random(8)
    talk = tuple(rng.choice(corpus.SKILLS)(rng) for _ in range(20))
    probe = evaluate.in_conversation(talk, corpus.sum_exchange(rng, 48, 37), None)

    (reply,) = evaluate.greedy_replies(model, tokenizer, [probe.prompt])

    assert reply == "48 + 37 = 85.<|end|>"


def test_plain_text_is_continued(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    prompts = ["<|bos|>17 + 25 =", "17 + 25 =", "<|bos|>Monday, Tuesday,", "<|bos|>1, 2, 3,"]

    replies = evaluate.greedy_replies(model, tokenizer, prompts)

    assert replies[:2] == [" 42<|end|>", " 42<|end|>"]
    assert replies[2] == " Wednesday, Thursday, Friday, Saturday, Sunday.<|end|>"
    assert replies[3].startswith(" 4, 5, 6,")


def test_the_model_ends_its_answer_to_any_question(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    asks = ("Привет", "{}", "SELECT 1;", "tell me everything", "x" * 40, "🙂", "a\n\nb", "!!!")

    replies = ask(model, tokenizer, *asks)

    assert all(reply.endswith("<|end|>") for reply in replies)


def test_the_template_lays_out_what_the_model_was_trained_on(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    exchanges = (Exchange(ask="Hi", reply="Hello!"), Exchange(ask="1+1", reply="1 + 1 = 2."))
    document = layout.conversation(exchanges, "Be brief.")
    messages: MESSAGES = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello!"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "1+"}, {"type": "text", "text": "1"}],
        },
    ]

    prompt = rendered(tokenizer, messages)

    assert prompt == "".join(segment.text for segment in document[:-1])


def test_the_template_lays_out_functions_calls_and_results_as_the_model_learnt_them(
    chats: Chats,
) -> None:
    rng = random.Random(5)
    for number in range(300):
        offers = tool_talk.offered(rng, corpus.word)
        exchanges = tuple(documents.tool_exchange(rng, offers) for _ in range(3))
        document = layout.conversation(exchanges, "Be brief.", offers)

        text = chats.apply_chat_template(
            [
                {"role": "system", "content": "Be brief."},
                *messages_of(exchanges, as_text=number % 2 == 0),
            ],
            tools=[functions.tool(each) for each in offers],
            tokenize=False,
            add_generation_prompt=False,
        )

        assert text == "".join(segment.text for segment in document)


def messages_of(exchanges: tuple[Exchange, ...], *, as_text: bool) -> MESSAGES:
    """The messages of a client. as_text: arguments are JSON text, as in a request."""
    messages: MESSAGES = []
    for each in exchanges:
        messages.append({"role": "user", "content": each.ask})
        if each.call is not None:
            arguments = each.call.arguments
            written = json.dumps(arguments, ensure_ascii=False) if as_text else arguments
            called = {"name": each.call.name, "arguments": written}
            call = {"id": "c1", "type": "function", "function": called}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            result = each.call.result
            messages.append({"role": "tool", "tool_call_id": "c1", "content": result})
        messages.append({"role": "assistant", "content": each.reply})
    return messages


@pytest.mark.parametrize(
    ("parameters", "written"),
    [
        (None, "f()"),
        ({"type": "object"}, "f()"),
        ({"properties": {"items": {"type": ["string", "null"]}}}, "f(items: string|null)"),
        (
            {"properties": {"a": {"enum": [1, "x"]}, "b": True, "c": {}}, "required": ["a"]},
            "f(a: 1|x, b?: any, c?: any)",
        ),
    ],
)
def test_the_template_describes_any_parameters(
    chats: Chats, parameters: dict[str, object] | None, written: str
) -> None:
    function: dict[str, object] = {"name": "f"}
    if parameters is not None:
        function["parameters"] = parameters

    text = chats.apply_chat_template(
        [{"role": "user", "content": "Hi"}],
        tools=[{"type": "function", "function": function}],
        tokenize=False,
        add_generation_prompt=False,
    )

    assert text == f"<|bos|><|function|>{written}\nf<|end|><|user|>Hi<|end|>"


def test_the_template_takes_several_calls_and_text_beside_them(chats: Chats) -> None:
    call = {"function": {"name": "f", "arguments": {"a": 'x "y"'}}}
    messages: MESSAGES = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "So: ", "tool_calls": [call, call]},
        {"role": "tool", "content": [{"type": "text", "text": '{"b": 1}'}]},
    ]

    text = chats.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    written = '<tool_call>\n{"name": "f", "arguments": {"a": "x \\"y\\""}}\n</tool_call>'
    assert text == (
        f"<|bos|><|user|>Hi<|end|><|assistant|>So: {written}\n{written}<|end|>"
        "<|tool|>b 1<|end|><|assistant|>"
    )


def test_words_are_the_same_tokens_wherever_they_stand(chats: Chats) -> None:
    word = chats.encode("Ljubljana", add_special_tokens=False)

    for text in ("in Ljubljana?", '{"city": "Ljubljana"}', "get_Ljubljana"):
        ids = chats.encode(text, add_special_tokens=False)
        assert any(ids[at : at + len(word)] == word for at in range(len(ids)))


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ({"role": "narrator", "content": "x"}, "no role narrator"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "text only, not image_url"),
    ],
)
def test_the_template_refuses_what_the_model_cannot_read(
    tokenizer: PreTrainedTokenizerFast, message: dict[str, object], complaint: str
) -> None:
    from jinja2.exceptions import TemplateError

    with pytest.raises(TemplateError, match=complaint):
        rendered(tokenizer, [message])


@given(text=st.text())
@settings(max_examples=examples(200), deadline=None)
def test_any_text_survives_encoding_and_decoding(chats: Chats, text: str) -> None:
    ids = chats.encode(text, add_special_tokens=False)

    assert chats.decode(ids) == text


@given(number=st.integers(min_value=0, max_value=10**12))
@settings(max_examples=examples(50), deadline=None)
def test_every_digit_is_one_token(chats: Chats, number: int) -> None:
    ids = chats.encode(str(number), add_special_tokens=False)

    assert len(ids) == len(str(number))


def test_plain_text_gets_the_start_token_and_the_end_of_turn_is_the_end_token(
    tokenizer: PreTrainedTokenizerFast, chats: Chats, model: LlamaForCausalLM
) -> None:
    ids = chats.encode("1 + 1 =")

    assert ids[0] == tokenizer.bos_token_id
    assert tokenizer.eos_token == "<|end|>"
    assert model.config.eos_token_id == tokenizer.eos_token_id


def test_both_models_together_take_less_than_six_megabytes() -> None:
    folders = [bundled_path("tiny-chat"), bundled_path("tiny-chat-early")]

    size = sum(path.stat().st_size for folder in folders for path in folder.iterdir())

    assert size <= 6_000_000
