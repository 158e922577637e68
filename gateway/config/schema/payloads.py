"""The shape of `logging.payloads` in config.yaml: which bodies are logged, and how."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.units import Path


class RedactRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of field and pattern.

    field: a key at any depth, or a path such as `messages[].content`. pattern: RE2 syntax.
    replacement: what is logged in place of the value, or of each match.
    """

    field: str | None = None
    pattern: str | None = None
    replacement: str = "[redacted]"


class Payloads(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """mode errors: requests that failed. sample: the share of mode `sample`.

    max_bytes: of one body in a record, after redaction. to otlp: the collector of
    `telemetry.otlp`, as log records. dir, max_file_bytes, files: of files, one per worker.
    max_day_bytes, max_key_day_bytes: stored per day (UTC) of all keys, and of each.
    """

    mode: Literal["off", "errors", "sample", "all"] = "off"
    sample: Annotated[float, Meta(ge=0, le=1)] = 0.01
    redact: tuple[RedactRule, ...] = ()
    max_bytes: Annotated[int, Meta(ge=256, le=1_048_576)] = 16_384
    to: Literal["file", "store", "otlp"] = "file"
    dir: Path = "payloads"
    max_file_bytes: Annotated[int, Meta(ge=65_536)] = 104_857_600
    files: Annotated[int, Meta(ge=1, le=1000)] = 5
    max_day_bytes: Annotated[int, Meta(ge=65_536)] = 1_073_741_824
    max_key_day_bytes: Annotated[int, Meta(ge=65_536)] = 134_217_728
