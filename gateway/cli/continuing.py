"""`strowger models --probe`: whether a backend continues an answer that another one has begun."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Final, get_args
from urllib.parse import urlsplit

from msgspec.structs import replace

from strowger_gateway.adapters.registry import Registry
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.config.schema.config import Config, Provider
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.gateway.routing.request_record import new_request_id
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Event, TextDelta
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, Continuing
from strowger_gateway.schemas.sampling import Sampling

FORMS: Final[tuple[Continuing, ...]] = tuple(reversed(get_args(Continuing)))
"""The one that needs nothing comes first: a server that ignores an unknown field may know it."""

TASK: Final = (
    "Write the numbers from one to twelve as English words, in order, separated by single spaces. "
    "Write nothing else."
)
BEGUN, NEXT = "one two three four five six", "seven"
OFFICIAL: Final = "api.openai.com"
"""It does not continue answers."""

NewRuntime = Callable[[Config], Runtime]


def beginning(model: str) -> ChatRequest:
    """A chat whose answer has begun; the rest of it is short."""
    messages = (Message(role="user", content=TASK), Message(role="assistant", content=BEGUN))
    sampling = Sampling(max_tokens=24)
    return ChatRequest(model=model, messages=messages, sampling=sampling, begun=True)


def goes_on(text: str) -> bool:
    """Whether the answer continues the beginning, which it may repeat."""
    text = " ".join(text.lower().split())
    return text.removeprefix(BEGUN).lstrip().startswith(NEXT)


class ContinuingProbe:
    """Of the backends of one configuration. Close it at the end.

    make: builds a Runtime, which opens no connections.
    """

    def __init__(self, config: Config, make: NewRuntime) -> None:
        self._providers: Mapping[str, Provider] = {one.name: one for one in config.providers}
        self._config = config
        self._registry = Registry()
        self._make = make
        self._variants: dict[Continuing, Runtime] = {}

    async def words(self, key: str, backend: Backend, timeout_s: float) -> str:
        """What it does, as text; "" if it is not asked. key: of Runtime.backends."""
        provider = self._providers[backend.name.partition("/")[0]]
        if provider.continues == "no":
            return ""
        own = backend.supports.continues
        if own is not None:
            if not own.model(backend.model):
                return ""
            done = await _continues(backend, timeout_s)
            return "continues answers" if done else "does not continue answers, as configured"
        base_url = provider.base_url or self._registry.base_url(provider.adapter)
        if not self._registry.may_continue(provider.adapter) or _is_official(base_url):
            return ""
        for form in FORMS:
            if await _continues(self._variant(form).backends[key], timeout_s):
                return f"continues answers with continues: {form}"
        return "does not continue answers"

    async def aclose(self) -> None:
        for runtime in self._variants.values():
            await runtime.close()

    def _variant(self, form: Continuing) -> Runtime:
        """The same configuration, in which all providers that may continue do so in this form."""
        if form not in self._variants:
            providers = tuple(
                replace(one, continues=form)
                if one.continues is None and self._registry.may_continue(one.adapter)
                else one
                for one in self._config.providers
            )
            self._variants[form] = self._make(replace(self._config, providers=providers))
        return self._variants[form]


def _is_official(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    return host == OFFICIAL or host.endswith(f".{OFFICIAL}")


async def _continues(backend: Backend, timeout_s: float) -> bool:
    """Ask once. A backend that refuses the request does not continue."""
    call = Call(model=backend.model, deadline=now() + timeout_s, request_id=new_request_id())
    text = ""
    source: AsyncGenerator[list[Event], None]
    source = backend.upstream.generate(beginning(backend.model), call)
    try:
        async with aclosing(source):
            async for batch in source:
                text += "".join(one.text for one in batch if isinstance(one, TextDelta))
    except GatewayError:
        return False
    return goes_on(text)
