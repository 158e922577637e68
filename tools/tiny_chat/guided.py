"""Greedy answers of the bundled model with its calls held to their schemas, as the engine does."""

from collections.abc import Sequence
from typing import Protocol, cast

import msgspec
import torch
from llguidance import LLMatcher, LLTokenizer
from torch import Tensor
from transformers.cache_utils import Cache
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.models.llama.modeling_llama import LlamaForCausalLM
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

from strowger_gateway.local_engine.answer_formats.catalogue import HERMES
from strowger_gateway.local_engine.child_process.grammar_compiler import compiled
from strowger_gateway.local_engine.guided.compiler import MaskedGrammar, quote
from strowger_gateway.local_engine.requests.output_parser import OutputFormat
from strowger_gateway.local_engine.requests.response_constraints import guide_of
from strowger_gateway.schemas.messages import FunctionTool
from tools.tiny_chat import layout
from tools.tiny_chat.functions import Function


class Grammars:
    """The engine's grammars of calls for one tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        backend = tokenizer.backend_tokenizer
        self._size = backend.get_vocab_size()
        self._end = layout.SPECIAL_TOKENS.index(layout.END)
        self._source = LLTokenizer(backend.to_str(), n_vocab=self._size, eos_token=[self._end])
        self._compiled: dict[bytes, LLMatcher] = {}

    def of(self, offers: tuple[Function, ...]) -> MaskedGrammar:
        """The grammar of an answer for which these functions are offered, in its first state."""

        tools = [
            FunctionTool(
                name=each.name, parameters=msgspec.Raw(msgspec.json.encode(each.parameters))
            )
            for each in offers
        ]
        key = msgspec.json.encode(offers)
        matcher = self._compiled.get(key)
        if matcher is None:
            guide = guide_of(
                OutputFormat(tools=HERMES, guaranteed=True),
                body=None,
                tools=tools,
                parallel=True,
                spell=_spell,
            )
            assert guide is not None
            matcher, result = compiled(self._source, guide)
            if matcher is None:
                raise ValueError(f"{result.field}: {result.problem}")
            self._compiled[key] = matcher
        return MaskedGrammar(
            matcher.deep_copy(),
            width=self._size,
            own_ends=(self._end,),
            ends=(self._end,),
            field="tools",
        )


class _Continues(Protocol):
    """The model's forward pass as used here; the original has open keywords."""

    def __call__(
        self,
        *,
        input_ids: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor,
        past_key_values: Cache | None,
        use_cache: bool,
        logits_to_keep: int,
    ) -> CausalLMOutputWithPast: ...


class Decodes(Protocol):
    """The used part of a tokenizer, with types."""

    def decode(self, token_ids: Tensor | list[int]) -> str: ...


@torch.inference_mode()
def greedy_replies(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[str],
    offers: Sequence[tuple[Function, ...]],
    max_new_tokens: int = 120,
) -> list[str]:
    """Continue rendered prompts in one batch, each under the grammar of its functions.

    Complete answers leave the batch once they are a quarter of it.
    """
    grammars = Grammars(tokenizer)
    states = [grammars.of(each) if each else None for each in offers]
    batch = tokenizer(list(prompts), padding=True, add_special_tokens=False, return_tensors="pt")
    fresh, mask = cast(Tensor, batch["input_ids"]), cast(Tensor, batch["attention_mask"])
    end = layout.SPECIAL_TOKENS.index(layout.END)
    answers: list[list[int]] = [[] for _ in prompts]
    places = list(range(len(prompts)))
    cache: Cache | None = None
    while True:
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -fresh.shape[1] :]
        out = cast(_Continues, model)(
            input_ids=fresh.to(model.device),
            attention_mask=mask.to(model.device),
            position_ids=positions.to(model.device),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache, logits = out.past_key_values, cast(Tensor, out.logits)[:, -1].cpu()
        open_rows = [row for row, place in enumerate(places) if answers[place][-1:] != [end]]
        for row in open_rows:
            if (state := states[places[row]]) is not None:
                allowed = torch.zeros(logits.shape[1], dtype=torch.bool)
                state.allow(allowed)
                logits[row, ~allowed] = -torch.inf
        drawn = logits.argmax(-1)
        for row in open_rows:
            token = int(drawn[row])
            answers[places[row]].append(token)
            if (state := states[places[row]]) is not None:
                state.advance(token)
        left = [row for row in open_rows if answers[places[row]][-1] != end]
        if not left or len(answers[places[left[0]]]) >= max_new_tokens:
            break
        fresh = drawn[:, None]
        mask = torch.cat((mask, torch.ones_like(fresh)), dim=1)
        if len(left) <= len(places) * 3 // 4:
            kept = torch.tensor(left)
            fresh, mask = fresh[kept], mask[kept]
            assert cache is not None
            cache.batch_select_indices(kept.to(model.device))
            places = [places[row] for row in left]
    text = cast(Decodes, tokenizer)
    return [text.decode(answer) for answer in answers]


def _spell(marker: str) -> str:
    if marker in layout.SPECIAL_TOKENS:
        return f"<[{layout.SPECIAL_TOKENS.index(marker)}]>"
    return quote(marker)
