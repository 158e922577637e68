"""An adapter's capabilities, as `strowger models --json` prints them."""

from collections.abc import Mapping

from msgspec import Struct

from strowger_gateway.adapters.base import Range, Supports
from strowger_gateway.adapters.capabilities import offered, sent_as
from strowger_gateway.schemas.fields import FIELDS, Task


class Field(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """supported: false: rejected by name. said_as: the backend's name, if it differs."""

    supported: bool
    required: bool = False
    said_as: str = ""
    range: Range | None = None


class AdapterDescription(Struct, frozen=True, kw_only=True):
    """One adapter.

    base_url:     "" if the configuration must give one.
    tasks:        supported tasks, each with all fields that its requests may have.
    extra:        unknown fields are passed on unchanged.
    extra_fields: if not, the unknown fields that are passed on, by task.
    """

    name: str
    base_url: str
    tasks: Mapping[Task, Mapping[str, Field]]
    extra: bool
    extra_fields: Mapping[Task, tuple[str, ...]]


def describe_adapter(name: str, base_url: str, supports: Supports) -> AdapterDescription:
    tasks: list[Task] = [task for task in FIELDS if offered(supports, task) is not None]
    return AdapterDescription(
        name=name,
        base_url=base_url,
        tasks={
            task: {field: _field(supports, task, field) for field in sorted(FIELDS[task])}
            for task in tasks
        },
        extra=supports.extra,
        extra_fields={task: tuple(sorted(some)) for task, some in supports.extra_fields.items()},
    )


def _field(supports: Supports, task: Task, field: str) -> Field:
    sent = sent_as(supports, task, field)
    if sent is None:
        return Field(supported=False)
    return Field(
        supported=True,
        required=field in supports.requires,
        said_as=sent,
        range=supports.ranges.get(field),
    )
