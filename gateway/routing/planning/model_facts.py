"""What is known about the models of backends, looked up by the backend's name."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from strowger_gateway.gateway.config.model_table.spellings import spellings
from strowger_gateway.gateway.config.schema.capabilities import Capability, Modality, PublishedFacts

_MOST_KEPT: Final = 4096
"""Names of models that are remembered; clients choose them behind wildcards."""
_THOUSAND, _KILO = 1000, 1024
_UNKNOWN: Final = "unknown"


class ModelFacts(Struct, frozen=True, kw_only=True, gc=False):
    """Facts about one model; `None` is unknown.

    context:    tokens of prompt and answer together, as it is published.
    longest_prompt: a prompt of more tokens certainly does not fit.
    max_output: tokens of the longest answer.
    retires:    ISO date from which the vendor answers no requests.
    source:     where the facts come from. url: the vendor's page; "" if unknown.
    """

    context: int | None = None
    longest_prompt: int | None = None
    max_output: int | None = None
    input: tuple[Modality, ...] | None = None
    output: tuple[Modality, ...] | None = None
    tools: bool | None = None
    reasoning: bool | None = None
    structured_output: bool | None = None
    retires: str | None = None
    source: str = ""
    url: str = ""


UNKNOWN: Final = ModelFacts()


class KnownModels(Struct, frozen=True, eq=False):
    """The facts about each backend, PROVIDER/MODEL: the operator's, then the published ones.

    rows:  the operator's with their index: exact names first, then the longest wildcards.
    known: published facts by backend. found: the facts by name, as they are looked up.
    """

    rows: tuple[tuple[int, Capability], ...] = ()
    known: dict[str, PublishedFacts] = field(default_factory=dict[str, PublishedFacts])
    found: dict[str, ModelFacts] = field(default_factory=dict[str, ModelFacts])

    def of(self, backend: str) -> ModelFacts:
        """The facts about a backend, with the requested model in place of a wildcard."""
        facts = self.found.get(backend)
        if facts is None:
            if len(self.found) >= _MOST_KEPT:
                self.found.clear()
            facts = self.found[backend] = self._merged(backend)
        return facts

    def _merged(self, backend: str) -> ModelFacts:
        facts = self._published(backend)
        for index, row in self.rows:
            if _covers(row.match, backend):
                return _with_operators(facts, row, f"capabilities[{index}]")
        return facts

    def _published(self, backend: str) -> ModelFacts:
        provider, _, model = backend.partition("/")
        for name in spellings(model):
            row = self.known.get(f"{provider}/{name}")
            if row is not None:
                facts = asdict(row)
                del facts["backend"]
                return ModelFacts(longest_prompt=_rounded_up(row.context), **facts)
        return UNKNOWN


NOTHING_KNOWN: Final = KnownModels()


def known_models(rows: Sequence[Capability], published: Sequence[PublishedFacts]) -> KnownModels:
    """Prepare the look-up. rows: the operator's, in the order of the configuration."""
    ordered = sorted(
        enumerate(rows), key=lambda one: (one[1].match.endswith("*"), -len(one[1].match))
    )
    return KnownModels(tuple(ordered), {row.backend: row for row in published})


def _covers(match: str, backend: str) -> bool:
    return backend.startswith(match[:-1]) if match.endswith("*") else backend == match


def _with_operators(facts: ModelFacts, row: Capability, source: str) -> ModelFacts:
    """Replace the facts that the operator's row sets."""
    values = {name: value for name, value in asdict(row).items() if value is not None}
    del values["match"]
    values = {name: None if value == _UNKNOWN else value for name, value in values.items()}
    if "context" in values:
        values["longest_prompt"] = values["context"]
    both = f"{source}; {facts.source}" if facts.source else source
    return replace(facts, source=both, **values)


def _rounded_up(context: int | None) -> int | None:
    """The most tokens that a published number may mean: "128k" is 128,000 or 131,072."""
    if context is None or context % _THOUSAND:
        return context
    if context % _THOUSAND**2 == 0:
        return context // _THOUSAND**2 * _KILO**2
    return context // _THOUSAND * _KILO
