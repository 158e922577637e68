"""Tools and response formats of the local engine over HTTP, with the official OpenAI client."""

import json

import openai
import pytest
from openai.types.chat import ChatCompletionToolParam
from openai.types.shared_params import ResponseFormatJSONSchema

from tests.gateway.serving import Serving

pytest.importorskip("torch")

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {here}
models:
  - {{name: tiny, backends: [{{provider: here, model: caller}}]}}
"""
CITY: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Köln"]}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {"name": "weather", "parameters": CITY, "strict": True},
}


def client(gateway: Serving) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="k", max_retries=0)


async def test_the_openai_client_streams_a_call_that_matches_its_schema(gateway: Serving) -> None:
    async with (
        client(gateway) as ask,
        ask.chat.completions.stream(
            model="tiny",
            messages=[{"role": "user", "content": "go on"}],
            tools=[WEATHER],
            tool_choice="required",
            parallel_tool_calls=False,
            seed=1,
        ) as stream,
    ):
        completion = await stream.get_final_completion()

    choice = completion.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert call.id.startswith("call_")
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments)["city"] in {"Rome", "Köln"}


async def test_an_answer_is_json_of_the_schema(gateway: Serving) -> None:
    form: ResponseFormatJSONSchema = {
        "type": "json_schema",
        "json_schema": {"name": "place", "schema": CITY, "strict": True},
    }
    async with client(gateway) as ask:
        completion = await ask.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": "go on"}],
            response_format=form,
            seed=1,
        )

    assert completion.choices[0].finish_reason == "stop"
    assert json.loads(completion.choices[0].message.content or "")["city"] in {"Rome", "Köln"}


async def test_a_schema_that_cannot_be_matched_is_a_400_that_names_it(gateway: Serving) -> None:
    form: ResponseFormatJSONSchema = {
        "type": "json_schema",
        "json_schema": {"name": "place", "schema": {"type": "city"}},
    }
    async with client(gateway) as ask:
        with pytest.raises(openai.BadRequestError, match="Invalid type: city") as caught:
            await ask.chat.completions.create(
                model="tiny",
                messages=[{"role": "user", "content": "go on"}],
                response_format=form,
            )

    assert caught.value.param == "response_format.json_schema.schema"
