"""Logits and log probabilities of prompts and answers, compared with transformers'."""

# transformers annotates its models in part only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from pathlib import Path
from typing import cast

import pytest
import torch
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from strowger_gateway.schemas import tensors
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import CompletionRequest, Draft, TokenRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.services import MODEL, ask, config, serving
from tests.local_engine.tiny import VOCABULARY

pytestmark = pytest.mark.anyio

PROMPT = tuple(range(20, 61))
GREEDY = Sampling(temperature=0.0, max_tokens=6, end_id=-1)


def reference(folder: Path, tokens: tuple[int, ...]) -> torch.Tensor:
    """[tokens, V] float32."""
    model = cast(PreTrainedModel, AutoModelForCausalLM.from_pretrained(folder)).eval()
    with torch.inference_mode():
        return cast(torch.Tensor, model(torch.tensor([tokens])).logits)[0].float()


def values(tensor: tensors.Tensor | None) -> torch.Tensor:
    assert tensor is not None
    assert tensor.dtype == "float32"
    flat = torch.frombuffer(bytearray(tensor.data), dtype=torch.float32)
    return flat.reshape(tensor.shape)


def request(sampling: Sampling, *, context: bool = True, generation: bool = True) -> TokenRequest:
    return TokenRequest(
        model=MODEL,
        tokens=PROMPT,
        sampling=sampling,
        return_context_logits=context,
        return_generation_logits=generation,
    )


@pytest.mark.parametrize("max_step_tokens", [512, 16])
async def test_the_prompts_logits_are_complete_for_any_chunks(
    folder: Folder, max_step_tokens: int
) -> None:
    """Also if its beginning is in the prefix cache."""
    expected = reference(folder("llama"), PROMPT)

    async with serving(config(folder("llama"), max_step_tokens=max_step_tokens)) as service:
        found = [await ask(service, request(GREEDY)) for _ in range(2)]

    for answer in found:
        torch.testing.assert_close(values(answer.context_logits), expected, atol=1e-4, rtol=1e-4)


async def test_each_generated_token_comes_with_the_logits_it_was_drawn_from(
    folder: Folder,
) -> None:
    """The model's row, before penalties and bans."""
    sampling = Sampling(temperature=0.0, max_tokens=6, end_id=-1, repetition_penalty=1.4)

    async with serving(config(folder("llama"))) as service:
        (choice,) = (await ask(service, request(sampling))).choices

    rows = reference(folder("llama"), (*PROMPT, *choice.token_ids))[len(PROMPT) - 1 : -1]
    torch.testing.assert_close(values(choice.generation_logits), rows, atol=1e-4, rtol=1e-4)


async def test_every_choice_and_every_beam_has_its_own_logits(folder: Folder) -> None:
    sampled = Sampling(max_tokens=5, seed=3, n=3, end_id=-1)
    searched = Sampling(max_tokens=5, beam_width=3, end_id=-1)

    async with serving(config(folder("llama"))) as service:
        answers = [await ask(service, request(sampling)) for sampling in (sampled, searched)]

    for answer in answers:
        assert len(answer.choices) == 3
        assert values(answer.context_logits).shape == (len(PROMPT), VOCABULARY)
        for choice in answer.choices:
            rows = reference(folder("llama"), (*PROMPT, *choice.token_ids))[len(PROMPT) - 1 : -1]
            torch.testing.assert_close(values(choice.generation_logits), rows, atol=1e-4, rtol=1e-4)


async def test_accepted_drafts_have_their_logits_too(folder: Folder) -> None:
    async with serving(config(folder("llama"))) as service:
        (plain,) = (await ask(service, request(GREEDY))).choices
        drafted = TokenRequest(
            model=MODEL,
            tokens=PROMPT,
            sampling=GREEDY,
            draft=Draft(tokens=tuple(plain.token_ids[:4])),
            return_generation_logits=True,
        )
        (choice,) = (await ask(service, drafted)).choices

    assert choice.token_ids == plain.token_ids
    torch.testing.assert_close(
        values(choice.generation_logits), values(plain.generation_logits), atol=1e-4, rtol=1e-4
    )


async def test_an_empty_draft_has_no_effect(folder: Folder) -> None:
    nothing = tensors.Tensor(dtype="float32", shape=(0, VOCABULARY), data=b"")
    sent = TokenRequest(
        model=MODEL, tokens=PROMPT, sampling=GREEDY, draft=Draft(tokens=(), logits=nothing)
    )

    async with serving(config(folder("llama"))) as service:
        found = [await ask(service, one) for one in (sent, request(GREEDY))]

    assert found[0].choices[0].token_ids == found[1].choices[0].token_ids


async def test_logits_are_returned_only_if_requested(folder: Folder) -> None:
    async with serving(config(folder("llama"))) as service:
        answer = await ask(service, request(GREEDY, context=False, generation=False))

    assert answer.context_logits is None
    assert answer.choices[0].generation_logits is None


@pytest.mark.parametrize(
    ("context", "field"), [(True, "return_context_logits"), (False, "return_generation_logits")]
)
async def test_more_logits_than_the_operator_allows_are_refused(
    folder: Folder, context: bool, field: str
) -> None:
    settings = config(folder("llama"), max_logits_bytes=5 * VOCABULARY * 4)

    async with serving(settings) as service:
        with pytest.raises(InvalidRequest, match="max_logits_bytes") as refused:
            await ask(service, request(GREEDY, context=context))

    assert refused.value.param == field


@pytest.mark.parametrize("choices", [1, 2])
async def test_an_echoed_prompt_has_the_log_probabilities_of_its_tokens(
    folder: Folder, choices: int
) -> None:
    sent = CompletionRequest(
        model=MODEL,
        prompts=(PROMPT, PROMPT[:7]),
        echo=True,
        sampling=Sampling(
            temperature=0.0, max_tokens=2, logprobs=True, top_logprobs=3, n=choices, ignore_eos=True
        ),
    )
    rows = reference(folder("llama"), PROMPT).log_softmax(-1)
    expected = [float(row[token]) for row, token in zip(rows, PROMPT[1:], strict=False)]

    async with serving(config(folder("llama"))) as service:
        answer = await ask(service, sent)

    assert len(answer.choices) == 2 * choices
    for choice, prompt in zip(
        answer.choices, [PROMPT] * choices + [PROMPT[:7]] * choices, strict=True
    ):
        scored = choice.logprobs[: len(prompt)]
        assert [one.id for one in scored] == list(prompt)
        assert scored[0].logprob is None
        assert [one.logprob for one in scored[1:]] == pytest.approx(
            expected[: len(prompt) - 1], abs=1e-4
        )
        assert all(len(one.top) == 3 for one in scored[1:])
        assert len(choice.logprobs) == len(prompt) + 2


@pytest.mark.parametrize(
    ("draft", "sampling", "field"),
    [
        (Draft(tokens=(VOCABULARY,)), GREEDY, "draft_input_ids"),
        (Draft(tokens=(5,)), Sampling(beam_width=2), "draft_input_ids"),
        (
            Draft(
                tokens=(5,),
                logits=tensors.Tensor(dtype="float32", shape=(1, 3), data=bytes(12)),
            ),
            GREEDY,
            "draft_logits",
        ),
    ],
    ids=["no such token", "with beams", "logits of another shape"],
)
async def test_invalid_drafts_are_rejected_by_name(
    folder: Folder, draft: Draft, sampling: Sampling, field: str
) -> None:
    sent = TokenRequest(model=MODEL, tokens=PROMPT, sampling=sampling, draft=draft)

    async with serving(config(folder("llama"))) as service:
        with pytest.raises(InvalidRequest) as refused:
            await ask(service, sent)

    assert refused.value.param == field
