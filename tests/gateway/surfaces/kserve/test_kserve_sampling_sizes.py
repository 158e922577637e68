"""Numbers of any length in a KServe request's sampling terms are a client error."""

import pytest

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.kserve.generate_parse import parse_generate
from strowger_gateway.schemas.errors import InvalidRequest


@pytest.mark.parametrize("field", ["random_seed", "end_id", "min_length"])
def test_a_number_that_has_no_float_is_refused_by_its_name(field: str) -> None:
    body = f'{{"text_input": "hi", "max_tokens": 2, "{field}": -1{"0" * 400}}}'.encode()

    with pytest.raises(InvalidRequest, match=field):
        parse_generate(Inbound(body=body, model="chat", max_choices=8), body, streams=False)
