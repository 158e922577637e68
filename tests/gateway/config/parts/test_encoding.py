"""A configuration with sections of parts reaches the workers as the leader has read it."""

import msgspec
import pytest

from strowger_gateway.gateway.config.parts.encoding import from_plain, to_plain
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.fleet.processes.messages import WorkerInit, packed
from tests.gateway.config.parts.test_sections import ENV, SECTION
from tests.gateway.config.parts.watermark import PARTS, StampPart, Watermark, read


def test_a_worker_has_the_sections_of_the_leader() -> None:
    config = read(SECTION, ENV)
    message = packed(WorkerInit(worker=0, config=config, engines=(), run_dir=b""))

    found = msgspec.msgpack.decode(message, type=WorkerInit, dec_hook=from_plain(PARTS)).config

    assert found == config
    assert found.section(Watermark) == config.section(Watermark)


def test_a_worker_without_the_part_refuses_the_configuration() -> None:
    message = msgspec.msgpack.encode(read(SECTION, ENV), enc_hook=to_plain)

    with pytest.raises(NotImplementedError, match="no part has the section 'watermark'"):
        msgspec.msgpack.decode(message, type=Config, dec_hook=from_plain((StampPart(),)))


def test_what_is_not_a_configurations_is_not_sent() -> None:
    with pytest.raises(NotImplementedError, match="cannot be sent between processes"):
        msgspec.msgpack.encode({"a": object()}, enc_hook=to_plain)
