"""The examples of MindIE's token interface, and requests made from them."""

import os
from pathlib import Path
from typing import Final

import msgspec
import pytest

from strowger_gateway.gateway.surfaces.mindie.parse import parse_infer_token
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import TokenRequest

EXAMPLE: Final = """
{
    "input_id": [5618, 19678, 701, 9072, 13],
    "stream": false,
    "parameters": {
        "temperature": 0.5,
        "top_k": 10,
        "top_p": 0.95,
        "max_new_tokens": 20,
        "do_sample": true,
        "seed": null,
        "repetition_penalty": 1.03,
        "details": true,
        "typical_p": 0.5,
        "watermark": false,
        "priority": 5,
        "timeout": 10
    }
}
"""
"""The document's own request, as it stands there."""

EXAMPLE_TEXT: Final = (
    "am a french native speaker. I am looking for a job in the hospitality industry. I"
)
EXAMPLE_ANSWER: Final[dict[str, object]] = {
    "generated_text": EXAMPLE_TEXT,
    "details": {"finish_reason": "length", "generated_tokens": 20, "seed": 846930886},
}
EXAMPLE_STREAM: Final = Path(__file__).with_name("mindie_infer_token.sse").read_bytes()
"""The document's stream, as it stands there: twenty frames."""

SEED: Final = (
    Path(os.environ.get("STROWGER_SEEDS", Path(__file__).parents[5] / "shared" / "seeds"))
    / "mindie-infer-token.txt"
)
"""The document itself, where it is at hand."""


def infer_token(parameters: object = None, **fields: object) -> TokenRequest:
    body = {"input_id": [1, 2], "parameters": parameters, **fields}
    return parse_infer_token(msgspec.json.encode(body), model="m")


def refusal_of(body: bytes, model: str = "m") -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse_infer_token(body, model=model)
    return caught.value


def refused_with(parameters: object = None, **fields: object) -> InvalidRequest:
    """Why a request with these is refused."""
    return refusal_of(msgspec.json.encode({"input_id": [1, 2], "parameters": parameters, **fields}))
