"""An upstream that fetches images given by URL and sends their bytes to its backend."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from msgspec import UNSET, Struct
from msgspec.structs import replace

from strowger_gateway.gateway.backends.upstream.base import Call, Upstream
from strowger_gateway.gateway.backends.upstream.image_fetching.byte_meter import ByteMeter
from strowger_gateway.gateway.backends.upstream.image_fetching.image import Image, ImageSource
from strowger_gateway.gateway.backends.upstream.own_limits import own_wait
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.platform.eventloop.inline_task import in_task
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import DeadlineExceeded, GatewayError, InvalidRequest
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.messages import ImagePart, Message, Part
from strowger_gateway.schemas.requests import ChatRequest, EmbeddingsRequest, GenerateRequest

PASSED = "the request's deadline has passed"
INLINE, REMOTE = "messages.image", "messages.remote_image"


class _Place(Struct, frozen=True, kw_only=True):
    message: int
    part: int

    @property
    def where(self) -> str:
        return f"messages[{self.message}].content[{self.part}].image_url.url"


def with_image_fetching(upstream: Upstream, images: Callable[[], ImageSource]) -> Upstream:
    """Wrap the upstream if its backend accepts inline images but does not fetch any.

    images: called only if the upstream is wrapped.
    """
    chat = upstream.supports.chat or frozenset()
    return ImageFetching(upstream, images()) if INLINE in chat and REMOTE not in chat else upstream


class ImageFetching:
    """See Upstream. Raises InvalidRequest for an image that cannot be fetched."""

    def __init__(self, inner: Upstream, fetcher: ImageSource) -> None:
        self.name = inner.name
        self._inner = inner
        self._fetcher = fetcher
        self._own = inner.supports.fetched_images
        known = inner.supports
        self.supports = replace(known, chat=(known.chat or frozenset()) | {REMOTE})

    def generate(self, request: GenerateRequest, call: Call) -> AsyncGenerator[list[Event], None]:
        """See Upstream.generate."""
        if isinstance(request, ChatRequest) and (images := _named(request, self._own)):
            return self._with_images(request, images, call)
        return self._inner.generate(request, call)

    @property
    def wrapped(self) -> Upstream:
        """See Wrapping."""
        return self._inner

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        return await self._inner.embed(request, call)

    async def count_tokens(self, request: ChatRequest, call: Call) -> int:
        return await self._inner.count_tokens(request, call)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _with_images(
        self, request: ChatRequest, images: dict[_Place, ImagePart], call: Call
    ) -> AsyncGenerator[list[Event], None]:
        """Reserve memory for the maximum first, then keep what the images use until the answer
        ends."""
        await in_task()
        memory, holder = self._fetcher.memory, call.holder
        claimed = memory.bounded(holder, self._fetcher.max_bytes)
        try:
            with own_wait(call.sending):
                await memory.acquire(holder, claimed, level=call.level, by=call.deadline)
        except TimeoutError as exc:
            raise DeadlineExceeded(f"{PASSED} in the queue for memory for images") from exc
        try:
            meter = ByteMeter(claimed)
            try:
                with own_wait(call.sending):
                    async with asyncio.timeout_at(call.deadline):
                        fetched = await self._fetch(images, meter, call)
            except TimeoutError as exc:
                raise DeadlineExceeded(f"{PASSED} while its images were fetched") from exc
            memory.release(holder, claimed - meter.used)
            claimed = meter.used
            messages = tuple(
                _with_parts(message, at, fetched) for at, message in enumerate(request.messages)
            )
            inner = self._inner.generate(replace(request, messages=messages), call)
            async with aclosing(inner) as source:
                async for batch in source:
                    yield batch
        finally:
            memory.release(holder, claimed)

    async def _fetch(
        self,
        images: dict[_Place, ImagePart],
        meter: ByteMeter,
        call: Call,
    ) -> dict[_Place, ImagePart]:
        """Fetch a few at a time, each URL once; the first failure cancels the others."""
        places: dict[str, list[_Place]] = {}
        for place, part in images.items():
            places.setdefault(part.url, []).append(place)
        left = iter(places.items())
        found: dict[_Place, ImagePart] = {}

        async def line() -> None:
            for url, named in left:
                async with self._fetcher.lines.holding(call.holder, level=call.level):
                    started, error = now(), "cancelled"
                    try:
                        image = await self._fetcher.image(url, named[0].where, meter)
                        error = ""
                    except GatewayError as exc:
                        error = exc.code
                        raise
                    finally:
                        if call.trace is not None:
                            call.trace.fetched(started, now(), error)
                inline = _data_uri(image)
                for place in named:
                    found[place] = replace(images[place], url=inline, raw=UNSET)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._fetcher.connections, len(places))):
                    group.create_task(line())
        except* InvalidRequest as several:
            raise several.exceptions[0] from None
        return found


def _named(request: ChatRequest, own: tuple[str, ...]) -> dict[_Place, ImagePart]:
    """Return the images to fetch; the backend fetches those at its `own` addresses itself."""
    return {
        _Place(message=at, part=place): part
        for at, message in enumerate(request.messages)
        if isinstance(message.content, tuple)
        for place, part in enumerate(message.content)
        if isinstance(part, ImagePart) and part.remote and not part.url.startswith(own)
    }


def _data_uri(image: Image) -> str:
    return f"data:{image.media_type};base64,{b64encode(image.data).decode('ascii')}"


def _with_parts(message: Message, at: int, fetched: dict[_Place, ImagePart]) -> Message:
    if not isinstance(message.content, tuple):
        return message
    parts: list[Part] = [
        fetched.get(_Place(message=at, part=place), part)
        for place, part in enumerate(message.content)
    ]
    # The client's raw JSON still has the URLs of the fetched images, so it is dropped.
    return replace(message, content=tuple(parts), raw=UNSET)
