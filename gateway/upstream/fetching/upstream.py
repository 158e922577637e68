"""An upstream whose backend gets the images themselves where a request only names them."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from msgspec import UNSET, Struct
from msgspec.structs import replace

from gateway.upstream.base import Call, Upstream
from gateway.upstream.fetching.image import Image, Images
from schemas.answers import Embeddings
from schemas.errors import DeadlineExceeded, InvalidRequest
from schemas.events import Event
from schemas.messages import ImagePart, Message, Part
from schemas.requests import ChatRequest, EmbeddingsRequest, GenerateRequest

INLINE, REMOTE = "messages.image", "messages.remote_image"


class _Place(Struct, frozen=True, kw_only=True):
    message: int
    part: int

    @property
    def where(self) -> str:
        return f"messages[{self.message}].content[{self.part}].image_url.url"


def fetching(upstream: Upstream, images: Callable[[], Images]) -> Upstream:
    """The upstream with what its backend lacks; itself if that fetches images, or sees none.

    images: called where there is something to fetch.
    """
    chat = upstream.supports.chat or frozenset()
    return Fetching(upstream, images()) if INLINE in chat and REMOTE not in chat else upstream


class Fetching:
    """See Upstream. Raises InvalidRequest for an image that cannot be had."""

    def __init__(self, inner: Upstream, fetcher: Images) -> None:
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

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        return await self._inner.embed(request, call)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _with_images(
        self, request: ChatRequest, images: dict[_Place, ImagePart], call: Call
    ) -> AsyncGenerator[list[Event], None]:
        try:
            async with asyncio.timeout_at(call.deadline):
                fetched = await self._fetch(images)
        except TimeoutError as exc:
            raise DeadlineExceeded("the request's deadline has passed") from exc
        messages = tuple(
            _with_parts(message, at, fetched) for at, message in enumerate(request.messages)
        )
        inner = self._inner.generate(replace(request, messages=messages), call)
        async with aclosing(inner) as source:
            async for batch in source:
                yield batch

    async def _fetch(self, images: dict[_Place, ImagePart]) -> dict[_Place, ImagePart]:
        """All at once; the first that cannot be had ends the others."""
        tasks: dict[_Place, asyncio.Task[Image]] = {}
        try:
            async with asyncio.TaskGroup() as group:
                for place, part in images.items():
                    limit = self._fetcher.max_bytes
                    got = self._fetcher.image(part.url, place.where, limit)
                    tasks[place] = group.create_task(got)
        except* InvalidRequest as several:
            raise several.exceptions[0] from None
        found = {place: task.result() for place, task in tasks.items()}
        total = 0
        for place, image in found.items():
            total += len(image.data)
            if total > self._fetcher.max_bytes:
                raise InvalidRequest(
                    f"{place.where} is too large beside the others: the images of a request may "
                    f"have {self._fetcher.max_bytes} bytes",
                    param=place.where,
                    code="invalid_image_url",
                )
        return {place: _inline(images[place], image) for place, image in found.items()}


def _named(request: ChatRequest, own: tuple[str, ...]) -> dict[_Place, ImagePart]:
    """The images that have to be fetched; the backend gets its `own` itself."""
    return {
        _Place(message=at, part=place): part
        for at, message in enumerate(request.messages)
        if isinstance(message.content, tuple)
        for place, part in enumerate(message.content)
        if isinstance(part, ImagePart) and part.remote and not part.url.startswith(own)
    }


def _inline(part: ImagePart, image: Image) -> ImagePart:
    data = b64encode(image.data).decode("ascii")
    return replace(part, url=f"data:{image.media_type};base64,{data}", raw=UNSET)


def _with_parts(message: Message, at: int, fetched: dict[_Place, ImagePart]) -> Message:
    if not isinstance(message.content, tuple):
        return message
    parts: list[Part] = [
        fetched.get(_Place(message=at, part=place), part)
        for place, part in enumerate(message.content)
    ]
    # The JSON as the client sent it names the images that were fetched.
    return replace(message, content=tuple(parts), raw=UNSET)
