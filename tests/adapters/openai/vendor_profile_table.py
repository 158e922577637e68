"""The vendor profiles as the table in docs/providers/compatible.md."""

from collections.abc import Iterable

from strowger_gateway.adapters.base import Range
from strowger_gateway.adapters.openai.thought_blocks import DETAILS
from strowger_gateway.adapters.openai.vendor_profile import Source, VendorProfile
from strowger_gateway.adapters.openai.vendor_profiles import VENDORS

HEAD = (
    "| adapter | base URL | also supports | not sent | beyond OpenAI's reference | more | source |",
    "|---|---|---|---|---|---|---|",
)


def table() -> str:
    return "\n".join([*HEAD, *(line(vendor) for vendor in VENDORS)])


def line(vendor: VendorProfile) -> str:
    """One row; `-` for an empty cell."""
    tasks = [
        name
        for name, offered in (
            ("completions", vendor.completion),
            ("embeddings", vendor.embeddings),
        )
        if offered
    ]
    beyond = (
        "unknown: all are sent"
        if vendor.extra_fields is None
        else code(sorted(vendor.extra_fields))
    )
    others_only = ["only " + " and ".join(tasks)] if not vendor.chat else tasks
    cells = (
        code([vendor.name]),
        code([vendor.base_url]) if vendor.base_url else "",
        ", ".join(others_only),
        code(sorted(vendor.unsupported)),
        beyond,
        "; ".join(others(vendor)),
        ", ".join(map(link, vendor.sources)),
    )
    return "| " + " | ".join(cell or "-" for cell in cells) + " |"


def others(vendor: VendorProfile) -> Iterable[str]:
    if vendor.single_max_tokens_field:
        yield f"the token limit is always {code([vendor.max_tokens])}"
    elif vendor.max_tokens != "max_tokens":
        yield f"the token limit is {code([vendor.max_tokens])}"
    for ours, theirs in vendor.names.items():
        yield (
            f"{code([ours])} is supported"
            if ours == theirs
            else f"{code([ours])} becomes {code([theirs])}"
        )
    if vendor.counted_logprobs:
        yield "`logprobs` is a number"
    if not vendor.stream_usage:
        yield "streams report usage by default"
    if vendor.inputs is not None:
        yield f"{vendor.inputs} texts per embeddings request"
    if vendor.stop is not None:
        yield f"{vendor.stop} stop strings"
    if vendor.choices is not None:
        yield f"`n` to {vendor.choices}"
    for field, bounds in vendor.ranges.items():
        yield f"{code([field])} {words(bounds)}"
    if vendor.thoughts:
        proofs = ", with proofs in `reasoning_details`" * (DETAILS in vendor.thoughts)
        yield f"reasoning is sent back as `{vendor.thoughts[0]}`{proofs}"
    if vendor.trailer_field:
        yield f"usage and errors in {code([vendor.trailer_field])}"


def words(bounds: Range) -> str:
    if bounds.maximum is None:
        return f"from {bounds.minimum:g}"
    return f"{bounds.minimum:g} … {bounds.maximum:g}"


def code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def link(source: Source) -> str:
    host = source.url.removeprefix("https://").split("/")[0]
    return f"[{host} {source.edition}]({source.url})"
