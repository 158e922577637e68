"""What `costs` in config.yaml may say."""

from typing import Literal

from msgspec import Struct


class Costs(Struct, frozen=True, kw_only=True):
    """in_answers: clients see what an answer cost.

    header: in `x-gateway-cost-usd`, if the answer is not streamed. usage: also as `cost` in the
    `usage` of OpenAI's dialect, as OpenRouter does, and so at the end of streams.
    https://openrouter.ai/docs/use-cases/usage-accounting
    """

    in_answers: Literal["none", "header", "usage"] = "none"
