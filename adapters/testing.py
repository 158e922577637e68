"""The contract that every adapter keeps, as checks for an adapter author's test suite.

`contract` returns the checks that our own adapters pass, one per promise and recorded exchange. An
author's whole contract test is

    from pathlib import Path

    import pytest
    from strowger_gateway.adapters.testing import Check, contract
    from acme_adapter import AcmeAdapter

    CHECKS = contract(AcmeAdapter, Path(__file__).parent / "fixtures" / "acme")

    @pytest.mark.parametrize("check", CHECKS, ids=str)
    def test_contract(check: Check) -> None:
        check()

`unittest` or a plain loop works as well: a check is called without arguments, returns nothing, and
raises AssertionError with a sentence that says what is wrong. adapters/conformance/recordings.py
documents the layout of recordings; `recordings`, `request_for`, `fixture` and `translate` are for
tests of your own next to the contract.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct

from strowger_gateway.adapters.base import Adapter, Endpoint
from strowger_gateway.adapters.conformance.checks import (
    KEY,
    TASKS,
    check_breaks,
    check_fields,
    check_shape,
    check_statuses,
    check_supports,
    check_thoughts,
)
from strowger_gateway.adapters.conformance.denied_field_checks import check_client_fields
from strowger_gateway.adapters.conformance.field_loss_checks import check_carried
from strowger_gateway.adapters.conformance.recording_checks import (
    check_cuts,
    check_error_reported,
    check_recorded,
    check_truncation,
    check_whole,
)
from strowger_gateway.adapters.conformance.recordings import Recording, recordings, request_for
from strowger_gateway.adapters.conformance.repair_checks import check_repairs
from strowger_gateway.adapters.conformance.replay import frames, translate
from strowger_gateway.adapters.conformance.translation_checks import Models, check_translations
from strowger_gateway.adapters.conformance.unencodable_checks import check_unencodable
from strowger_gateway.adapters.conformance.usage_checks import check_usage
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.requests import WholeRequest
from strowger_gateway.schemas.secret import Secret

__all__ = [
    "Build",
    "Check",
    "Models",
    "Recording",
    "contract",
    "contract_endpoint",
    "fixture",
    "frames",
    "recordings",
    "request_for",
    "translate",
]

Build = Callable[[Endpoint], Adapter]
"""An adapter's class, or any other callable that builds one from an endpoint."""

ANYWHERE = "https://backend.test/v1"


class Check(Struct, frozen=True, kw_only=True):
    """One check. name: what must be true, as a sentence."""

    name: str
    run: Callable[[], None]

    def __call__(self) -> None:
        """Raises AssertionError if the check fails, and any exception that the adapter raises."""
        self.run()

    def __str__(self) -> str:
        return self.name


def contract(
    build: Build,
    recorded: Path | Iterable[Recording] = (),
    *,
    base_url: str = ANYWHERE,
    model: str = "m",
    models: Mapping[Task, Models] | None = None,
) -> list[Check]:
    """Return every check of the contract for one adapter; nothing is built before a check runs.

    recorded: a folder of recordings or the recordings themselves. Without any, only checks that
              need no recording are returned.
    base_url: the adapter's configured base URL; nothing is sent.
    model:    the backend's own name, if its requests depend on that.
    models:   if a field's place depends on the model: by task, one model per place.
    Raises ValueError for a folder without recordings.
    """
    if isinstance(recorded, Path):
        found = recordings(recorded)
        if not found:
            raise ValueError(f"{recorded}: there are no recordings")
    else:
        found = list(recorded)

    def check(name: str, what: Callable[[Adapter], None]) -> Check:
        return Check(name=name, run=lambda: what(build(contract_endpoint(base_url))))

    checks = [
        check("it describes its requests", check_shape),
        check("it declares known fields only", check_supports),
        check("every error status has a meaning", check_statuses),
        check("reasoning that is sent back is sent or reported", check_thoughts),
        check("repair rules repair, once, and say what they do", check_repairs),
    ]
    for task in TASKS:
        ways = (models or {}).get(task, {model: {}})
        checks += [check(name, what) for name, what in _of_task(task, model, ways)]
    if found:
        recorded_all = partial(check_recorded, recorded=found)
        checks.append(check("every offered task has a recording", recorded_all))
    checks += [check(f"{one.name}: {name}", what) for one in found for name, what in _of(one)]
    return checks


def contract_endpoint(base_url: str = ANYWHERE) -> Endpoint:
    """Return an endpoint; the checks verify that its key never shows where it must not."""
    return Endpoint(name="contract", base_url=base_url, key=Secret(KEY))


def fixture(folder: Path, name: str) -> Recording:
    """Return one recording of a folder. Raises KeyError if there is none of that name."""
    for one in recordings(folder):
        if one.name == f"{folder.name}/{name}":
            return one
    raise KeyError(f"{folder} has no recording {name!r}")


def _of_task(
    task: Task, model: str, ways: Models
) -> Iterator[tuple[str, Callable[[Adapter], None]]]:
    """Yield the checks for the requests of one task."""
    yield (
        f"{task}: every field is sent or reported",
        partial(check_fields, task=task, model=model),
    )
    yield (
        f"{task}: every field is sent where and how the adapter declares",
        partial(check_translations, task=task, models=ways),
    )
    yield (
        f"{task}: withheld fields never reach the backend",
        partial(check_client_fields, task=task, model=model),
    )
    yield (
        f"{task}: no field is lost silently, at any depth",
        partial(check_carried, task=task, model=model),
    )
    yield (
        f"{task}: values that cannot be encoded are rejected by field name",
        partial(check_unencodable, task=task, model=model),
    )
    yield f"{task}: bytes that are not an answer are an error", partial(check_breaks, task=task)


def _of(recording: Recording) -> Iterator[tuple[str, Callable[[Adapter], None]]]:
    """Yield the checks for one recording."""
    if recording.status != 200:
        yield (
            "the error has the vendor's message",
            partial(check_error_reported, recording=recording),
        )
        return
    yield "it is a complete answer", partial(check_whole, recording=recording)
    yield "the vendor's usage counts are kept", partial(check_usage, recording=recording)
    if isinstance(request_for(recording), WholeRequest):
        return
    if recording.streamed:
        yield "chunk boundaries have no effect", partial(check_cuts, recording=recording)
    yield "a truncated body is an error", partial(check_truncation, recording=recording)
