"""Checks of `audit`."""

from pathlib import Path

from strowger_gateway.gateway.config.checks.providers import check_file
from strowger_gateway.gateway.config.problems import Found, Problems
from strowger_gateway.gateway.config.schema.config import Config


def check_audit(config: Config, problems: Problems) -> None:
    """Check where the audit log is written, and warn about settings without effect."""
    audit = config.audit
    for name, value in (("file", audit.file), ("keep_days", audit.keep_days)):
        if value is not None and audit.log == "off":
            problems.warn(("audit", name), "has no effect, because audit.log is off")
    if audit.file is None or problems.at(("audit", "file")):
        return
    file = Path(audit.file)
    if file.is_dir():
        problems.add(("audit", "file"), Found(audit.file), " is a folder; give a file in it")
    else:
        check_file(str(file.parent), ("audit", "file"), problems)
