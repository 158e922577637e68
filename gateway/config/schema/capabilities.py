"""The shape of `capabilities` in config.yaml. See `gateway/config/schema` for the conventions."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.units import BackendName, Count

Modality = Literal["text", "image", "audio", "video", "file", "embeddings"]
Date = Annotated[str, Meta(pattern=r"^20\d\d-[01]\d-[0-3]\d$", description="a date, YYYY-MM-DD")]


class Capability(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts about the model of a backend; each one that is set replaces the table's.

    match:   a backend, or a prefix of several with `*`; an exact match wins, then the longest.
    context: tokens of a prompt and its answer together. max_output: tokens of the longest answer.
             unknown: routing does not use the table's number either.
    retires: the vendor answers no requests from this day on.
    """

    match: BackendName
    context: Count | Literal["unknown"] | None = None
    max_output: Count | Literal["unknown"] | None = None
    input: tuple[Modality, ...] | None = None
    output: tuple[Modality, ...] | None = None
    tools: bool | None = None
    reasoning: bool | None = None
    structured_output: bool | None = None
    retires: Date | None = None


class PublishedFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row of the table for one backend, or for one model of a provider with a wildcard backend.

    source: what the row was read from, and when. url: the page that the source names.
    """

    backend: str
    context: int | None = None
    max_output: int | None = None
    input: tuple[Modality, ...] | None = None
    output: tuple[Modality, ...] | None = None
    tools: bool | None = None
    reasoning: bool | None = None
    structured_output: bool | None = None
    retires: str | None = None
    source: str = ""
    url: str = ""
