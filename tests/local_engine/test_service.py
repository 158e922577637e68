"""What a caller of the service gets, for each kind of request, on a tiny model."""

import pytest

from schemas.sampling import Sampling
from tests.local_engine.asking import Oracle, ask, chat, config, serving
from tests.local_engine.conftest import Folder

pytestmark = pytest.mark.anyio

GREEDY = Sampling(temperature=0.0, max_tokens=20, ignore_eos=True)


async def test_a_chat_is_answered_with_the_tokens_of_transformers_generate(folder: Folder) -> None:
    oracle = Oracle(folder("llama"))
    prompt = oracle.tokenizer.encode("<|user|>user: the lazy dog\n<|assistant|>", special=False)

    async with serving(config(folder("llama"))) as service:
        answer = await ask(service, chat("the lazy dog", GREEDY))

    tokens = oracle.greedy(prompt, 20)
    whole = oracle.tokenizer.decode(prompt + tokens)
    assert answer.choices[0].text == whole.removeprefix(oracle.tokenizer.decode(prompt))
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(prompt)
    assert answer.usage.completion_tokens == 20
