"""docs/reference/errors.md: every error code with its status, cause and action."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from string import Template

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.surfaces.anthropic import errors as anthropic
from strowger_gateway.gateway.surfaces.databricks import errors as databricks
from strowger_gateway.gateway.surfaces.gemini import errors as google
from strowger_gateway.gateway.surfaces.kserve import bodies as kserve
from strowger_gateway.gateway.surfaces.mindie import errors as mindie
from strowger_gateway.gateway.surfaces.openai.bodies import error_body, openai_error
from strowger_gateway.schemas.errors import GatewayError, Unavailable
from tools.reference.error_codes import Raised, raised

MEANINGS = Path(__file__).with_name("errors.toml")
HEAD = Path(__file__).with_name("errors.md")
"""The page's text before the codes, with places for what the code says."""
OF_VENDORS = {"content_filter": Raised(code="content_filter", statuses=(400,), retry="")}
"""Codes that only vendors send, of which the gateway knows the meaning."""

_FORMATS: tuple[tuple[str, str, Callable[[GatewayError], bytes]], ...] = (
    ("OpenAI, and everything not listed below", "`/v1/…`, `/admin/…`", error_body),
    ("Anthropic", "`/v1/messages`", anthropic.error_body),
    ("Databricks", "`/serving-endpoints/…`, `/api/2.0/…`", databricks.error_body),
    ("Google", "`/v1beta/…`, Vertex AI's paths", google.error_body),
    ("MindIE", "`/infer_token`", mindie.error_body),
    ("KServe, TensorRT-LLM", "`/v2/…`", kserve.error_body),
)


class Meaning(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One sentence or two each. where: what has the code, if not the answers of the gateway."""

    cause: str
    action: str
    where: str = ""


def meanings() -> Mapping[str, Mapping[str, Meaning]]:
    """Return meanings by section of the page and by code."""
    return msgspec.toml.decode(MEANINGS.read_bytes(), type=dict[str, dict[str, Meaning]])


def page() -> str:
    """Raise AssertionError if a code has no meaning, or a meaning no code."""
    codes = {**raised(), **OF_VENDORS}
    sections = meanings()
    told = {code for section in sections.values() for code in section}
    assert told == codes.keys(), f"tools/reference/errors.toml: {told ^ codes.keys()}"
    statuses = sorted({status for one in codes.values() for status in one.statuses})
    head = Template(HEAD.read_text("utf-8")).substitute(
        code=Unavailable.code,
        envelopes="\n".join(_envelopes()).rstrip(),
        types="".join(_types(status) for status in statuses if status != 499).rstrip(),
    )
    parts = [head]
    for title, section in sections.items():
        parts.append(f"\n## {title}\n")
        parts += [_entry(codes[code], meaning) for code, meaning in section.items()]
    return "".join(parts)


def _envelopes() -> Iterator[str]:
    error = Unavailable("the gateway is shutting down")
    error.request_id = "req-…"
    for name, paths, body in _FORMATS:
        yield f"{name} ({paths}):\n\n```json\n{body(error).decode()}\n```\n"


def _types(status: int) -> str:
    error = GatewayError("")
    error.status = status
    theirs = anthropic.status_of(error)
    other = f" with status {theirs}" if theirs != status else ""
    of_mindie: str = msgspec.json.decode(mindie.error_body(error))["error_type"]
    names = (
        f"`{openai_error(error).type}`",
        f"`{anthropic.error_type(status)}`{other}",
        f"`{databricks.error_code(error)}`",
        f"`{of_mindie}`",
    )
    return f"| {status} | {' | '.join(names)} |\n"


def _entry(code: Raised, meaning: Meaning) -> str:
    status = ", ".join(map(str, code.statuses)) or "the backend's own, 4xx"
    rows = {
        "Status": status,
        "Appears in": meaning.where,
        "Cause": meaning.cause,
        "Action": meaning.action,
        "Retry": code.retry and f"another attempt is allowed if `retry.on` has `{code.retry}`",
    }
    lines = "".join(f"- {name}: {text}\n" for name, text in rows.items() if text)
    return f"\n### `{code.code}`\n\n{lines}"
