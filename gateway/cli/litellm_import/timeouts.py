"""Translates timeouts of LiteLLM, which bound the same things in another way."""

from collections.abc import Mapping
from typing import Final

from strowger_gateway.gateway.cli.litellm_import.ledger import Ledger, Path, mapping, number
from strowger_gateway.gateway.config.yaml_document import Tree

_TOTAL: Final = "providers[].timeouts.total_s"
_FIRST: Final = "providers[].timeouts.first_token_s"


class DeploymentTimeouts:
    """`timeout` bounds an answer, and `stream_timeout` the time to the first content of a stream.

    Without `stream_timeout`, LiteLLM waits for the first content for all of `timeout`.
    """

    def __init__(self, ledger: Ledger, sections: Mapping[str, Tree]) -> None:
        """sections: of the document."""
        self.ledger = ledger
        self._total = self._first_of(
            (("router_settings", "timeout"), ("litellm_settings", "request_timeout")), sections
        )
        self._first = number(mapping(sections.get("router_settings")).get("stream_timeout"))
        if self._first:
            ledger.translate(("router_settings", "stream_timeout"), _FIRST)

    def of(self, at: Path, params: Mapping[str, Tree]) -> dict[str, object]:
        """Return `providers[].timeouts` of a deployment. at: the path of `litellm_params`."""
        total = self._first_of(
            ((*at, "timeout"), (*at, "request_timeout")), {str(at[-1]): dict(params)}
        )
        total = total or self._total
        first = number(params.get("stream_timeout"))
        if first:
            self.ledger.translate((*at, "stream_timeout"), _FIRST)
        first = first or self._first or total
        return {
            name: seconds
            for name, seconds in (("first_token_s", first), ("total_s", total))
            if seconds
        }

    def _first_of(self, paths: tuple[Path, ...], sections: Mapping[str, Tree]) -> float | None:
        """Return the first of these settings that is a time; those after it have no effect."""
        found: float | None = None
        for path in paths:
            seconds = number(mapping(sections.get(str(path[-2]))).get(str(path[-1])))
            if found is not None:
                self.ledger.omit(path, "timeout wins", "nothing: it had no effect")
            elif seconds:
                self.ledger.translate(path, _TOTAL)
                found = seconds
        return found
