"""Vendor failures give the client another backend's answer or one error, never half an answer."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Sequence

import httpx
import pytest

from tests.gateway.backends.vendors.backend import (
    BUSY,
    BUSY_OR_SPARE,
    KEY,
    OR_SPARE,
    OVERLOADED,
    SPARE_SAYS,
    Setting,
    begin,
    every_vendor,
    is_streamed,
)
from tests.gateway.backends.vendors.dialect import FAULT, Said
from tests.gateway.backends.vendors.rows import VENDORS, Vendor
from tests.stand_ins.provider import Answer, Behaviour, Received

pytestmark = pytest.mark.anyio

STREAMING = [one for one in VENDORS if one.streams]
MARKED = [one for one in STREAMING if not one.bare_end]


def which(vendors: Sequence[Vendor]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vendor", vendors, ids=lambda one: one.name)


of_all = which(VENDORS)
of_streams = which(STREAMING)
either_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting, None]:
    async with every_vendor(tmp_path_factory.mktemp("run"), failing=True) as one:
        yield one


def refusing(vendor: Vendor, status: int, message: str = FAULT) -> Behaviour:
    async def behave(request: Received, answer: Answer) -> None:
        headers = {"retry-after": "7"} if status in (429, 503) else None
        await answer.json(vendor.dialect.error(status, message), status, headers)

    return behave


Pieces = Callable[[Vendor], list[bytes]]


def before_content(vendor: Vendor) -> list[bytes]:
    return [*vendor.dialect.streamed(Said()).before]


def half(vendor: Vendor) -> list[bytes]:
    return [*before_content(vendor), *vendor.dialect.streamed(Said()).content[:1]]


def streaming(vendor: Vendor, pieces: Sequence[bytes], *after: bytes, ended: bool) -> Behaviour:
    """These pieces, a moment in which they travel, and what comes after; ended: in good order."""

    async def behave(request: Received, answer: Answer) -> None:
        assert is_streamed(request)
        await begin(vendor, answer, pieces)
        await asyncio.sleep(0.02)
        for one in after:
            await answer.chunk(one)
        if ended:
            await answer.raw(b"0\r\n\r\n")
        else:
            answer.close()

    return behave


def the_spare_answered(setting: Setting, answer: httpx.Response) -> bool:
    return (
        answer.status_code == 200
        and SPARE_SAYS in answer.text
        and answer.headers["x-gateway-backend"] == "spare/s"
        and (len(setting.server.requests), len(setting.spare.requests)) == (1, 1)
    )


@of_all
@either_way
async def test_an_error_in_the_request_is_final_after_one_attempt(
    setting: Setting, vendor: Vendor, stream: bool
) -> None:
    setting.plays(refusing(vendor, 400))

    answer = await setting.post(vendor, stream=stream, model=OR_SPARE)

    assert answer.status_code == 400
    assert FAULT in answer.json()["error"]["message"]
    assert (len(setting.server.requests), len(setting.spare.requests)) == (1, 0)


@of_all
@either_way
@pytest.mark.parametrize("status", [401, 500])
async def test_what_only_another_backend_can_fix_goes_to_another_backend(
    setting: Setting, vendor: Vendor, stream: bool, status: int
) -> None:
    setting.plays(refusing(vendor, status))

    answer = await setting.post(vendor, stream=stream, model=OR_SPARE)

    assert the_spare_answered(setting, answer)


@of_all
@pytest.mark.parametrize(("status", "seen"), [(401, 424), (500, 502)])
async def test_an_operators_error_has_its_own_status_and_never_the_key(
    setting: Setting, vendor: Vendor, status: int, seen: int
) -> None:
    setting.plays(refusing(vendor, status, f"{FAULT}: {KEY}"))

    answer = await setting.post(vendor, stream=False)

    line = setting.gateway.access_lines()[-1]
    assert answer.status_code == seen
    assert line.message.startswith(f"{vendor.name}: {FAULT}")
    assert answer.json()["error"]["message"].startswith(f"{vendor.name}: ")
    assert (FAULT in answer.text) is (status == 500)
    assert KEY not in answer.text
    assert KEY not in str(line)


@of_all
async def test_a_busy_vendor_cools_down_for_its_retry_after(
    setting: Setting, vendor: Vendor
) -> None:
    setting.plays(refusing(vendor, 429))

    reported = await setting.post(vendor, stream=False, model=BUSY)
    setting.plays(refusing(vendor, 429))
    others = [await setting.post(vendor, stream=False, model=BUSY_OR_SPARE) for _ in range(2)]

    assert (reported.status_code, reported.headers["retry-after"]) == (429, "7")
    assert all(SPARE_SAYS in one.text for one in others)
    assert (len(setting.server.requests), len(setting.spare.requests)) == (1, 2)


@of_all
async def test_an_overloaded_vendor_has_a_retry_after(setting: Setting, vendor: Vendor) -> None:
    setting.plays(refusing(vendor, 503))

    answer = await setting.post(vendor, stream=False, model=OVERLOADED)

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")
    assert answer.json()["error"]["message"] == f"{vendor.name}: {FAULT}"


@of_all
async def test_a_whole_answer_marked_as_failed_goes_to_another_backend(
    setting: Setting, vendor: Vendor
) -> None:
    async def behave(request: Received, answer: Answer) -> None:
        await answer.json(vendor.dialect.failed())

    setting.plays(behave)
    answer = await setting.post(vendor, stream=False, model=OR_SPARE)

    assert the_spare_answered(setting, answer)


@of_all
async def test_a_whole_answer_cut_short_is_anothers(setting: Setting, vendor: Vendor) -> None:
    async def behave(request: Received, answer: Answer) -> None:
        data = json.dumps(vendor.dialect.whole(Said())).encode()
        head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
        await answer.raw(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data[:-1])
        answer.close()

    setting.plays(behave)
    answer = await setting.post(vendor, stream=False, model=OR_SPARE)

    assert the_spare_answered(setting, answer)


@of_streams
@pytest.mark.parametrize("ended", [False, True], ids=["cut", "ended"])
async def test_a_stream_that_breaks_before_content_is_anothers(
    setting: Setting, vendor: Vendor, ended: bool
) -> None:
    setting.plays(streaming(vendor, before_content(vendor), ended=ended))

    answer = await setting.post(vendor, stream=True, model=OR_SPARE)

    assert the_spare_answered(setting, answer)
    assert answer.text.endswith("data: [DONE]\n\n")


@of_streams
async def test_a_failure_before_content_goes_to_another_backend(
    setting: Setting, vendor: Vendor
) -> None:
    reported = vendor.dialect.failure()
    setting.plays(streaming(vendor, before_content(vendor), reported, ended=True))

    answer = await setting.post(vendor, stream=True, model=OR_SPARE)

    assert the_spare_answered(setting, answer)


def broken_off(setting: Setting, answer: httpx.Response) -> str:
    """The message of the error that ends a stream of which the client saw a part."""
    frames = [one.removeprefix("data: ") for one in answer.text.split("\n\n") if one]
    assert answer.status_code == 200
    pieces = re.findall(r'"(?:content|text)":"([^"]*)"', answer.text)
    assert "".join(pieces) == "Hel"
    assert "[DONE]" not in frames
    assert '"finish_reason":"' not in answer.text
    assert not setting.spare.requests
    return json.loads(frames[-1])["error"]["message"]


@of_streams
async def test_a_failure_in_the_middle_is_an_error_and_not_an_end(
    setting: Setting, vendor: Vendor
) -> None:
    reported = vendor.dialect.failure()
    setting.plays(streaming(vendor, half(vendor), reported, ended=True))

    answer = await setting.post(vendor, stream=True, model=OR_SPARE)

    assert broken_off(setting, answer) == f"{vendor.name}: {FAULT}"


@of_streams
async def test_a_stream_cut_in_the_middle_is_an_error_and_no_end(
    setting: Setting, vendor: Vendor
) -> None:
    setting.plays(streaming(vendor, half(vendor), ended=False))

    answer = await setting.post(vendor, stream=True, model=OR_SPARE)

    assert broken_off(setting, answer).startswith(f"{vendor.name}: ")


@which(MARKED)
async def test_a_stream_without_its_end_mark_is_an_error_and_no_end(
    setting: Setting, vendor: Vendor
) -> None:
    setting.plays(streaming(vendor, half(vendor), ended=True))

    answer = await setting.post(vendor, stream=True, model=OR_SPARE)

    assert broken_off(setting, answer).startswith(f"{vendor.name}: ")


def waiting(vendor: Vendor, pieces: Sequence[bytes], left: asyncio.Event) -> Behaviour:
    """These pieces, if any, and nothing more until the other side hangs up, which sets `left`."""

    async def behave(request: Received, answer: Answer) -> None:
        try:
            if pieces:
                await begin(vendor, answer, pieces)
            await answer.gone.wait()
        finally:
            left.set()

    return behave


@of_all
@either_way
async def test_a_client_that_disconnects_before_content_stops_the_vendor(
    setting: Setting, vendor: Vendor, stream: bool
) -> None:
    left = asyncio.Event()
    setting.plays(waiting(vendor, (), left))

    await setting.leave(vendor, stream=stream, after_content=False)

    await asyncio.wait_for(left.wait(), 60)


@of_streams
async def test_a_client_that_disconnects_in_the_middle_stops_the_vendor(
    setting: Setting, vendor: Vendor
) -> None:
    left = asyncio.Event()
    setting.plays(waiting(vendor, half(vendor), left))

    await setting.leave(vendor, stream=True, after_content=True)

    await asyncio.wait_for(left.wait(), 60)
