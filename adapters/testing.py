"""The contract that every adapter keeps, as checks for an adapter author's test suite.

`contract` returns the checks that our own adapters pass, one per promise and recorded exchange. An
author's whole contract test is

    from pathlib import Path

    import pytest
    from adapters.testing import Check, contract
    from acme_adapter import AcmeAdapter

    CHECKS = contract(AcmeAdapter, Path(__file__).parent / "fixtures" / "acme")

    @pytest.mark.parametrize("check", CHECKS, ids=str)
    def test_contract(check: Check) -> None:
        check()

`unittest` or a plain loop works as well: a check is called without arguments, returns nothing, and
raises AssertionError with a sentence that says what is wrong. adapters.conformance.recordings
documents the layout of recordings; `recordings`, `request_for`, `fixture` and `translate` are for
tests of your own next to the contract.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct

from adapters.base import Adapter, Endpoint
from adapters.conformance.checks import (
    KEY,
    TASKS,
    check_breaks,
    check_fields,
    check_shape,
    check_statuses,
    check_supports,
    check_thoughts,
)
from adapters.conformance.denied_field_checks import check_client_fields
from adapters.conformance.field_loss_checks import check_carried
from adapters.conformance.recording_checks import (
    check_cuts,
    check_error_reported,
    check_recorded,
    check_truncation,
    check_whole,
)
from adapters.conformance.recordings import Recording, recordings, request_for
from adapters.conformance.replay import frames, translate
from adapters.conformance.translation_checks import Models, check_translations
from adapters.conformance.unencodable_checks import check_unencodable
from adapters.conformance.usage_checks import check_usage
from schemas.fields import Task, task_of
from schemas.secret import Secret

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
"""An adapter's class, or whatever else makes one from an endpoint."""

ANYWHERE = "https://backend.test/v1"


class Check(Struct, frozen=True, kw_only=True):
    """One promise. name: what should be true, as a sentence."""

    name: str
    run: Callable[[], None]

    def __call__(self) -> None:
        """Raises AssertionError where the promise is broken, and whatever the adapter raises."""
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
    """Every check of the contract for one adapter; nothing is run or built before a check is.

    recorded: a folder of exchanges or the exchanges themselves. Without any, only what holds
              whatever was recorded is checked.
    base_url: where the adapter is told to send; nothing is sent.
    model:    the backend's own name, where its requests depend on that.
    models:   where the model decides how a field is said: by task, one for each way.
    Raises ValueError for a folder without exchanges.
    """
    if isinstance(recorded, Path):
        found = recordings(recorded)
        if not found:
            raise ValueError(f"{recorded}: there is no recorded exchange")
    else:
        found = list(recorded)

    def check(name: str, what: Callable[[Adapter], None]) -> Check:
        return Check(name=name, run=lambda: what(build(contract_endpoint(base_url))))

    checks = [
        check("it says how it is asked", check_shape),
        check("what it supports are known fields", check_supports),
        check("every error status has a meaning", check_statuses),
        check("thoughts that are handed back are sent or reported", check_thoughts),
    ]
    for task in TASKS:
        ways = (models or {}).get(task, {model: {}})
        checks += [check(name, what) for name, what in _of_task(task, model, ways)]
    if found:
        recorded_all = partial(check_recorded, recorded=found)
        checks.append(check("every task that is offered was recorded", recorded_all))
    checks += [check(f"{one.name}: {name}", what) for one in found for name, what in _of(one)]
    return checks


def contract_endpoint(base_url: str = ANYWHERE) -> Endpoint:
    """An endpoint whose key the checks look for where no key may be."""
    return Endpoint(name="contract", base_url=base_url, key=Secret(KEY))


def fixture(folder: Path, name: str) -> Recording:
    """One exchange of a folder. Raises KeyError where there is none of that name."""
    for one in recordings(folder):
        if one.name == f"{folder.name}/{name}":
            return one
    raise KeyError(f"{folder} has no exchange {name!r}")


def _of_task(
    task: Task, model: str, ways: Models
) -> Iterator[tuple[str, Callable[[Adapter], None]]]:
    """What holds of the requests of one task."""
    yield (
        f"{task}: every field is sent or reported",
        partial(check_fields, task=task, model=model),
    )
    yield (
        f"{task}: every field is sent where and as the adapter says",
        partial(check_translations, task=task, models=ways),
    )
    yield (
        f"{task}: what is withheld from it never reaches it",
        partial(check_client_fields, task=task, model=model),
    )
    yield (
        f"{task}: nothing is lost in silence, at any depth",
        partial(check_carried, task=task, model=model),
    )
    yield (
        f"{task}: what cannot be encoded is refused by name",
        partial(check_unencodable, task=task, model=model),
    )
    yield f"{task}: bytes that are no answer are an error", partial(check_breaks, task=task)


def _of(recording: Recording) -> Iterator[tuple[str, Callable[[Adapter], None]]]:
    """What holds of one exchange."""
    if recording.status != 200:
        yield "the error tells what went wrong", partial(check_error_reported, recording=recording)
        return
    yield "it is a whole answer", partial(check_whole, recording=recording)
    yield "all that the vendor counts is kept", partial(check_usage, recording=recording)
    if task_of(request_for(recording)) == "embeddings":
        return
    if recording.streamed:
        yield "chunk boundaries never show", partial(check_cuts, recording=recording)
    yield "cut short it is an error", partial(check_truncation, recording=recording)
