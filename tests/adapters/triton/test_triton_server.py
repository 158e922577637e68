"""Triton's own client works with the fake Triton server."""

import pytest
from tritonclient import http
from tritonclient.utils import InferenceServerException

from tests.stand_ins.triton_client import items, tensor, with_client
from tests.stand_ins.triton_models import Wanted, continuation, ids_of, logprob_of, text_of
from tests.stand_ins.triton_server import Trouble, triton_server

pytestmark = pytest.mark.anyio


def asked(*, binary: bool) -> list[http.InferInput]:
    return [
        tensor("input_ids", [[5, 6, 7]], "INT32", binary=binary),
        tensor("input_lengths", [[3]], "INT32", binary=binary),
        tensor("request_output_len", [[4]], "INT32", binary=binary),
        tensor("exclude_input_in_output", [[True]], "BOOL", binary=binary),
        tensor("return_log_probs", [[True]], "BOOL", binary=binary),
    ]


@pytest.mark.parametrize("binary", [True, False])
async def test_tritons_own_client_gets_its_tensors(binary: bool) -> None:
    ids = continuation([5, 6, 7], Wanted(bound=4))

    async with triton_server() as server:
        result = await with_client(
            server.base_url,
            lambda client: client.infer(
                "tensorrt_llm",
                asked(binary=binary),
                outputs=[
                    http.InferRequestedOutput("output_ids", binary_data=binary),
                    http.InferRequestedOutput("output_log_probs", binary_data=binary),
                ],
            ),
        )

    assert items(result, "output_ids") == [[ids]]
    assert items(result, "output_log_probs") == [[[logprob_of(one) for one in ids]]]
    assert server.inferences[0].tensors["request_output_len"].items == [4]


async def test_tritons_own_client_finds_the_server_and_its_models() -> None:
    async with triton_server() as server:
        found = await with_client(
            server.base_url,
            lambda client: (
                client.is_server_live(),
                client.is_server_ready(),
                client.is_model_ready("ensemble"),
                client.get_model_metadata("tensorrt_llm"),
            ),
        )

    assert found[:3] == (True, True, True)
    inputs = {one["name"]: one for one in found[3]["inputs"]}
    assert inputs["request_output_len"]["datatype"] == "INT32"


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        ("tensorrt_llm_streaming", [], "decoupled"),
        ("nobody", [], "unknown model"),
        ("tensorrt_llm", [("sead", [[1]], "INT32")], "unexpected inference input 'sead'"),
        ("tensorrt_llm", [("seed", [[1]], "INT32")], "data-type is 'INT32'"),
        ("tensorrt_llm", [("end_id", [1], "INT32")], "unexpected shape for input 'end_id'"),
    ],
)
async def test_what_a_model_does_not_take_is_refused(
    model: str, change: list[tuple[str, object, str]], message: str
) -> None:
    inputs = [*asked(binary=True), *(tensor(*one, binary=True) for one in change)]

    async with triton_server() as server:
        with pytest.raises(InferenceServerException, match=message):
            await with_client(server.base_url, lambda client: client.infer(model, inputs))


async def test_a_refusal_that_was_ordered_has_its_status() -> None:
    async with triton_server(Trouble(status=503, message="queue is full")) as server:
        with pytest.raises(InferenceServerException, match=r"\[503\] queue is full"):
            await with_client(
                server.base_url, lambda client: client.infer("tensorrt_llm", asked(binary=True))
            )


def test_the_tiny_model_ends_at_its_limit() -> None:
    prompt = ids_of("the quick brown fox")

    ids = continuation(prompt, Wanted(bound=6))

    assert len(ids) == 6
    assert continuation(prompt, Wanted(bound=6, end_id=ids[2])) == ids[:2]
    assert continuation(prompt, Wanted(bound=6, stop=((ids[1], ids[2]),))) == ids[:3]
    assert continuation(prompt, Wanted(bound=6, stop_text=(text_of(ids[:2]),))) == ids[:2]
    assert continuation(prompt, Wanted(bound=6, bad=((ids[0],),)))[0] != ids[0]
    assert continuation(prompt, Wanted(bound=6, seed=1)) != ids
