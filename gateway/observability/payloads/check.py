"""Cross-checks of `logging.payloads`: usable rules, and a collector if it is the target."""

import re

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config

_PATH = re.compile(r"[^.\[\]]+(?:\[\d*\])*(?:\.[^.\[\]]+(?:\[\d*\])*)*")


def check_payloads(config: Config, problems: Problems) -> None:
    settings = config.logging.payloads
    place = ("logging", "payloads")
    if settings.mode != "off" and settings.to == "otlp" and config.telemetry.otlp is None:
        problems.add((*place, "to"), "otlp needs telemetry.otlp, which names the collector")
    if settings.mode == "off" and (settings.to != "file" or settings.redact):
        problems.warn(
            (*place, "to" if settings.to != "file" else "redact"),
            "has no effect, because mode is off and nothing is recorded; set mode to errors, "
            "sample or all, or remove it",
        )
    for index, rule in enumerate(settings.redact):
        at = (*place, "redact", index)
        if (rule.field is None) == (rule.pattern is None):
            problems.add(at, "give one of field and pattern")
        elif rule.field is not None and not _PATH.fullmatch(rule.field):
            text = "is not a key or a path such as messages[].content"
            problems.add((*at, "field"), text)
        elif rule.pattern is not None and (problem := _problem_of(rule.pattern)):
            problems.add((*at, "pattern"), problem)


def _problem_of(pattern: str) -> str:
    from strowger_gateway.gateway.config.redaction import substitute
    from strowger_gateway.schemas.errors import InvalidConfig

    try:
        substitute(pattern, "")
    except InvalidConfig as exc:
        return exc.problems[0]
    return ""
