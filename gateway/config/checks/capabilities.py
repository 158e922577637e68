"""Check that backends of models and variants support the fields that the operator sets."""

from collections.abc import Iterator, Mapping

from msgspec import UNSET, Struct

from strowger_gateway.adapters.base import Supports
from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.gateway.config.adapter_names import WITHOUT_WIRE, Defaults, Installed
from strowger_gateway.gateway.config.problems import Path, Problems
from strowger_gateway.gateway.config.schema.config import Config, Provider
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, Request
from strowger_gateway.schemas.sampling import Sampling


class _Set(Struct, frozen=True):
    """A place of the configuration that sets fields, and a backend that would receive them."""

    path: Path
    sampling: Sampling
    backend: str
    so: str


def check_honoured(config: Config, problems: Problems, adapters: Mapping[str, Defaults]) -> None:
    """Warn only: a request may replace the fields, and another backend may support them.

    Skips local engines, which support nearly everything, and providers with a tokenizer, which
    may support what their adapter cannot.
    """
    if not isinstance(adapters, Installed):
        return
    providers = {provider.name: provider for provider in config.providers}
    for one in (*_of_models(config), *_of_variants(config)):
        if problems.under(one.path) or problems.at(one.path) or one.sampling == Sampling():
            continue
        provider = providers.get(one.backend.partition("/")[0])
        if provider is None or problems.under(("providers",)):
            continue
        supports = _supports(provider, adapters)
        if supports is None:
            continue
        given = _given(one.sampling)
        for fault in unsupported(_request(one.sampling, supports), supports):
            if fault.field in given:
                text = f"{fault.reason} by {one.backend} (adapter {provider.adapter}), {one.so}"
                problems.warn((*one.path, fault.field), text)


def _of_models(config: Config) -> Iterator[_Set]:
    so = "which gets no request with it while another backend supports it"
    for index, model in enumerate(config.models):
        for group, fields in (("defaults", model.defaults), ("overrides", model.overrides)):
            for ref in model.backends:
                path: Path = ("models", index, group)
                yield _Set(path, fields.sampling, f"{ref.provider}/{ref.model}", so)


def _of_variants(config: Config) -> Iterator[_Set]:
    so = "so other backends answer for this variant"
    for index, experiment in enumerate(config.experiments):
        for place, variant in enumerate(experiment.variants):
            path: Path = ("experiments", index, "variants", place, "set")
            yield _Set(path, variant.set.sampling, variant.backend, so)


def _supports(provider: Provider, adapters: Installed) -> Supports | None:
    """`None` if unknown, or if the backend generates no text."""
    if provider.adapter in WITHOUT_WIRE or provider.tokenizer is not None:
        return None
    found = adapters.supports(provider.adapter, provider.base_url)
    return found if found.chat is not None or found.completion is not None else None


def _request(sampling: Sampling, supports: Supports) -> Request:
    if supports.chat is not None:
        message = Message(role="user", content="")
        return ChatRequest(model="", messages=(message,), sampling=sampling)
    return CompletionRequest(model="", prompts=("",), sampling=sampling)


def _given(sampling: Sampling) -> frozenset[str]:
    return frozenset(
        name for name in Sampling.__struct_fields__ if getattr(sampling, name) is not UNSET
    )
