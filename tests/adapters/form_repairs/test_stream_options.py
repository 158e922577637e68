"""Options of a stream go only with a stream."""

from pathlib import Path

import pytest

from tests.adapters.repairs.one_of_each import dropped, one_of_each

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("model", ["openai", "databricks", "vllm"])
async def test_options_of_a_stream_are_left_out_of_a_request_without_one(
    tmp_path: Path, model: str
) -> None:
    options = {"include_obfuscation": True}
    async with one_of_each(tmp_path, model) as rig:
        chat = await rig.chat(model, stream_options=options)
        chat_sent = rig.sent
        asked = await rig.responses(model, stream_options=options)
        asked_sent = rig.sent

    for answer, sent in ((chat, chat_sent), (asked, asked_sent)):
        assert answer.status_code == 200, answer.text
        assert "stream_options" not in sent
        assert any(one.startswith("stream_options") for one in dropped(answer))
