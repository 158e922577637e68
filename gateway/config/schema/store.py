"""The shape of `store` in config.yaml: the database, the spool, and the export of records."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.units import MIB, Count, Path
from strowger_gateway.schemas.secret import Secret

DEFAULT_STORE = "sqlite:///strowger.db"


class RecordExport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Each row once, by one gateway at a time.

    to:      a folder, or s3://BUCKET/PREFIX?OPTIONS, which may contain credentials, hence `Secret`.
    every_s: from the end of one run to the begin of the next, at most a year.
    """

    to: Secret
    every_s: Annotated[float, Meta(ge=1, le=31_622_400)] = 3600.0


class StoreConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Storage of keys, usage and experiments. URLs may contain passwords, hence `Secret`.

    url:   sqlite:///FILE (a relative path starts at the folder of config.yaml) or postgresql://…
    moved_from: the former `url`, which `strowger store copy --switch` has closed; records that wait
           for it go to this one.
    usage: required: reject requests that cannot be recorded.
    spool: the folder in which records wait for the store; `None`: next to the SQLite file, or to
           config.yaml. max_spool_bytes: its maximum size.
    min_free_bytes: of the disk of a SQLite file: what responses and payloads leave to other rows.
    keep_days: of requests; experiment results computed from them are kept.
    keep_usage_days: of the sums by payer for `strowger usage`. keep_payload_days: of payloads.
    export: where requests and attempts are copied to; `None`: nowhere.
    """

    url: Secret = Secret(DEFAULT_STORE)
    redis_url: Secret | None = None
    moved_from: Secret | None = None
    usage: Literal["best_effort", "required"] = "best_effort"
    spool: Path | None = None
    max_spool_bytes: Annotated[int, Meta(ge=MIB, extra={"size": True})] = 1024 * MIB
    min_free_bytes: Annotated[int, Meta(ge=0, extra={"size": True})] = 256 * MIB
    keep_days: Count = 90
    keep_usage_days: Count = 400
    keep_payload_days: Count = 7
    export: RecordExport | None = None
