"""A server with the OpenAI API that supports tools, schemas, log probabilities, tokens and
embeddings."""

from typing import cast

from tests.stand_ins.provider import USAGE, Answer, Json, Received, delta_body

WORDS = ("h", "i", "!")
"""Tokens of nearly every vocabulary, so that each id has a fixed log probability."""


async def speaks_openai(request: Received, answer: Answer) -> None:
    body = request.json
    if request.path.endswith("/embeddings"):
        inputs = body["input"]
        count = len(cast("list[object]", inputs)) if isinstance(inputs, list) else 1
        data = [{"object": "embedding", "index": i, "embedding": [0.5, -1]} for i in range(count)]
        await answer.json({"object": "list", "data": data, "model": "e", "usage": USAGE})
    elif request.path.endswith("/chat/completions"):
        await _chat(body, answer)
    else:
        await _complete(body, answer)


async def _chat(body: dict[str, object], answer: Answer) -> None:
    if body.get("stream"):
        await answer.stream(*WORDS)
        return
    message: dict[str, object] = {"role": "assistant", "content": "".join(WORDS)}
    finish = "stop"
    if "tools" in body:
        function = {"name": "weather", "arguments": '{"city":"Rome"}'}
        call = {"id": "c1", "type": "function", "function": function}
        message["content"], message["tool_calls"], finish = None, [call], "tool_calls"
    elif "response_format" in body:
        message["content"] = '{"city":"Oslo"}'
    choice: dict[str, object] = {"index": 0, "message": message, "finish_reason": finish}
    if body.get("logprobs"):
        choice["logprobs"] = {
            "content": [{"token": w, "logprob": -0.5, "top_logprobs": []} for w in WORDS]
        }
    await answer.json(
        {"id": "x", "object": "chat.completion", "created": 1, "model": "m-1", "choices": [choice],
         "usage": USAGE}
    )  # fmt: skip


async def _complete(body: dict[str, object], answer: Answer) -> None:
    prompts = _prompts(body["prompt"])
    if body.get("stream"):
        await answer.begin_stream()
        for index, _ in enumerate(prompts):
            for word in WORDS:
                await answer.event(_text_chunk(index, word, None))
            await answer.event(_text_chunk(index, "", "stop"))
        usage = _usage(prompts)
        await answer.event({**_text_chunk(0, "", None), "choices": [], "usage": usage})
        await answer.end_stream(None)
        return
    choices: list[Json] = [
        {"index": index, "text": "".join(WORDS), "finish_reason": "stop", "logprobs": _scores(body)}
        for index, _ in enumerate(prompts)
    ]
    await answer.json(
        {"id": "x", "object": "text_completion", "created": 1, "model": "m-1", "choices": choices,
         "usage": _usage(prompts)}
    )  # fmt: skip


def _prompts(prompt: object) -> list[object]:
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        return cast("list[object]", prompt)
    return [cast("object", prompt)]


def _usage(prompts: list[object]) -> Json:
    """A token is a number of the prompt, or a word of its text."""
    count = sum(
        len(cast("list[int]", one)) if isinstance(one, list) else len(str(one).split())
        for one in prompts
    )
    said = len(WORDS) * len(prompts)
    return {"prompt_tokens": count, "completion_tokens": said, "total_tokens": count + said}


def _scores(body: dict[str, object]) -> Json | None:
    if body.get("logprobs") is None:
        return None
    return {
        "tokens": list(WORDS),
        "token_logprobs": [-0.5] * len(WORDS),
        "top_logprobs": None,
        "text_offset": [0, 1, 2],
    }


def _text_chunk(index: int, text: str, finish: str | None) -> Json:
    choice = {"index": index, "text": text, "finish_reason": finish, "logprobs": None}
    return {**delta_body({}), "object": "text_completion", "choices": [choice]}
