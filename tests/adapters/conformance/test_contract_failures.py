"""The contract reports what is wrong with an adapter: each of these has one defect."""

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

from strowger_gateway.adapters.base import Endpoint, Outbound, Supports
from strowger_gateway.adapters.testing import Build, Check, contract
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    GenerateRequest,
    Request,
)
from strowger_workers_ai.adapter import WorkersAiAdapter
from strowger_workers_ai.decode import WorkersAiDecoder

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "strowger-workers-ai"
FIXTURES = EXAMPLE / "tests" / "fixtures" / "workers-ai"


class Forgets(WorkersAiAdapter):
    """Declares `stop` but does not send it."""

    @property
    def supports(self) -> Supports:
        supports = super().supports
        return replace(supports, chat=(supports.chat or frozenset[str]()) | {"stop"})


class Invents(WorkersAiAdapter):
    """Declares a field that does not exist."""

    @property
    def supports(self) -> Supports:
        return replace(super().supports, chat=frozenset({"creativity"}))


_COUNT = count()


class Nulls(WorkersAiAdapter):
    def encode(self, request: Request, model: str) -> Outbound:
        outbound = super().encode(request, model)
        return replace(outbound, body=outbound.body[:-1] + b',"lora":null}')


class Dice(WorkersAiAdapter):
    """Encodes a request differently each time."""

    def encode(self, request: Request, model: str) -> Outbound:
        outbound = super().encode(request, model)
        return replace(outbound, body=outbound.body + b" " * next(_COUNT))


class Talks(WorkersAiAdapter):
    """Forwards the vendor's message, which contains the key."""

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        keyless = WorkersAiAdapter(Endpoint(name="contract", base_url="https://cf.test"))
        return keyless.error(status, headers, body)


class _Patient(WorkersAiDecoder):
    def close(self) -> Sequence[Event]:
        return ()


class Patient(WorkersAiAdapter):
    """Treats a truncated answer as complete."""

    def decoder(self, request: GenerateRequest) -> WorkersAiDecoder:
        assert isinstance(request, ChatRequest | CompletionRequest)
        return _Patient(self._endpoint, request)


def failures(build: Build) -> Mapping[str, str]:
    """Return the message of each failing check."""
    found: dict[str, str] = {}
    for check in contract(build, FIXTURES):
        if "boundaries" not in check.name:
            found.update(failure(check))
    return found


def failure(check: Check) -> Mapping[str, str]:
    try:
        check()
    except AssertionError as exc:
        return {check.name: str(exc).splitlines()[0]}
    return {}


@pytest.mark.parametrize(
    ("build", "name", "told"),
    [
        (
            Forgets,
            "chat: every field is sent or reported",
            "chat: stop is supported but never sent",
        ),
        (Invents, "it declares known fields only", "chat: no such fields: ['creativity']"),
        (
            Nulls,
            "embeddings: every field is sent or reported",
            "embeddings: absent fields are sent as null",
        ),
        (
            Dice,
            "chat: no field is lost silently, at any depth",
            "chat: the same request is encoded differently each time",
        ),
        (Talks, "every error status has a meaning", "400: the key is in the message"),
        (
            Patient,
            "workers-ai/chat-stream: a truncated body is an error",
            "workers-ai/chat-stream: cut at byte ",
        ),
    ],
)
def test_a_fault_is_described_in_a_sentence(build: Build, name: str, told: str) -> None:
    [check] = [one for one in contract(build, FIXTURES) if one.name == name]

    assert failure(check)[name].startswith(told)


def test_an_adapter_without_faults_passes_every_check() -> None:
    assert failures(WorkersAiAdapter) == {}


def test_a_task_that_was_never_recorded_is_missed(tmp_path: Path) -> None:
    (tmp_path / "chat").symlink_to(FIXTURES / "chat")

    [check] = [one for one in contract(WorkersAiAdapter, tmp_path) if "recording" in one.name]

    assert failure(check) == {check.name: "completion is offered, but has no recording"}


def test_a_folder_without_recordings_is_not_a_contract(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there are no recordings"):
        contract(WorkersAiAdapter, tmp_path)
