"""Items that a backend of this API ends late, or never, are carried at their own places."""

import json
from typing import cast

from msgspec import Raw

from strowger_gateway.gateway.surfaces.responses.carriers import Carriers
from strowger_gateway.gateway.surfaces.responses.item_writer import ItemWriter
from strowger_gateway.gateway.surfaces.responses.native_events import NativeEvents

Json = dict[str, object]

TEXT: Json = {"id": "msg_1", "type": "message", "status": "in_progress", "content": []}
THOUGHT: Json = {"id": "rs_1", "type": "reasoning", "summary": []}
CALL: Json = {"id": "fc_1", "type": "function_call", "call_id": "c", "name": "f"}


def written(*steps: tuple[str, int, Json]) -> tuple[list[Json], list[Json], list[str]]:
    """Write the beginnings and ends of items; return the events, all items and what was sealed."""
    sealed: list[str] = []

    def seal(data: bytes) -> str:
        sealed.append(data.decode())
        return str(len(sealed))

    carriers = Carriers(seal)
    events = NativeEvents(carriers)
    numbers = ItemWriter("resp_1", own={}, summarised=True, carriers=carriers)
    out: list[bytes] = []
    for kind, index, item in steps:
        event = {"type": f"response.output_item.{kind}", "output_index": index, "item": item}
        events.write(Raw(json.dumps(event).encode()), numbers, out)
    items = events.finish(numbers, out)
    frames = [json.loads(one.partition(b"data: ")[2]) for one in out]
    return cast("list[Json]", frames), cast("list[Json]", json.loads(items)), sealed


def test_an_item_that_ends_after_a_carrier_keeps_its_place() -> None:
    events, items, _ = written(
        ("added", 0, TEXT),
        ("added", 1, THOUGHT),
        ("done", 1, THOUGHT),
        ("added", 2, CALL),
        ("done", 2, CALL),
        ("done", 0, TEXT),
    )

    assert [one["id"] for one in items] == ["msg_1", "rs_1", "rs_sealed_1", "fc_1", "rs_sealed_2"]
    for one in events:
        item = cast("Json", one["item"])
        assert items[cast("int", one["output_index"])]["id"] == item["id"]


def test_a_text_that_its_backend_cuts_off_is_carried() -> None:
    _, items, sealed = written(("added", 0, TEXT))

    assert [one["id"] for one in items] == ["msg_1", "rs_sealed_1"]
    assert [one["id"] for one in json.loads(sealed[0])] == ["msg_1"]
