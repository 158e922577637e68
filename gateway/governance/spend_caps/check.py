"""Cross-checks of `providers[].spend_caps`."""

from strowger_gateway.gateway.config.checks.known_prices import is_priced
from strowger_gateway.gateway.config.problems import Found, Path, Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.spend_caps.standing import held_by
from strowger_gateway.gateway.platform.time_zones import zone_named


def check_caps(config: Config, problems: Problems) -> None:
    """Faults of time zones; warnings of caps that hold nothing, or do not know what they count."""
    for index, provider in enumerate(config.providers):
        for place, cap in enumerate(provider.spend_caps):
            path: Path = ("providers", index, "spend_caps", place)
            if problems.under(path):
                continue
            try:
                zone_named(cap.time_zone)
            except (ValueError, OSError, LookupError):
                text = " is not a time zone that this machine knows; write it as Europe/Berlin"
                problems.add((*path, "time_zone"), Found(cap.time_zone), text)
            held = list(held_by(config, provider.name, cap))
            if not held:
                problems.warn((*path, "models"), "no model has a backend that the cap is of")
            for backend in held:
                if "*" not in backend and not is_priced(backend, config):
                    problems.warn(
                        path,
                        "does not count ",
                        Found(backend),
                        ", which has no price; add a row to prices",
                    )
