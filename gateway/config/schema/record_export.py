"""The shape of `store.export` in config.yaml: records copied to Parquet while the gateway runs."""

from typing import Annotated

from msgspec import Meta, Struct

from schemas.secret import Secret


class RecordExport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Each row once, by one replica at a time.

    to:      a folder, or s3://BUCKET/PREFIX?OPTIONS, which may contain credentials, hence `Secret`.
    every_s: from the end of one run to the begin of the next, at most a year.
    """

    to: Secret
    every_s: Annotated[float, Meta(ge=1, le=31_622_400)] = 3600.0
