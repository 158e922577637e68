"""Call a remote provider: an adapter's bytes over a transport, under the provider's timeouts."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar, cast

from msgspec.structs import replace

from strowger_gateway.adapters.base import (
    Adapter,
    Decoder,
    EndMarked,
    HeadReader,
    InputsByModel,
    Outbound,
    PlainReader,
    RecentTokenCounter,
    TaskDecoder,
    TokenCounter,
)
from strowger_gateway.adapters.capabilities import restricted
from strowger_gateway.adapters.framing import FRAMING, MAX_FRAME
from strowger_gateway.adapters.lost_fields import LostFields
from strowger_gateway.adapters.unencodable import ENCODE_ERRORS, unencodable
from strowger_gateway.gateway.backends.upstream.base import Call, WholeChat
from strowger_gateway.gateway.backends.upstream.credentials.base import Credentials
from strowger_gateway.gateway.backends.upstream.credentials.transport import AuthorizedTransport
from strowger_gateway.gateway.backends.upstream.embedding_batches import (
    join_answers,
    side_by_side,
    split_batches,
    task_parts,
)
from strowger_gateway.gateway.backends.upstream.error_body import (
    error_body,
    hide_addresses,
    with_date,
)
from strowger_gateway.gateway.backends.upstream.event_reader import EventReader
from strowger_gateway.gateway.backends.upstream.large_answers import (
    LARGE,
    VECTOR_BYTES,
    decoded_apart,
)
from strowger_gateway.gateway.backends.upstream.lora_scope import scope_lora_ids
from strowger_gateway.gateway.backends.upstream.own_limits import own_wait
from strowger_gateway.gateway.backends.upstream.patience import (
    REASONING,
    USUAL,
    Patience,
    first_byte_of,
    patience_of,
    total_of,
)
from strowger_gateway.gateway.backends.upstream.sending import Sending
from strowger_gateway.gateway.backends.upstream.transport import AnswerTooLarge, Reply, Transport
from strowger_gateway.gateway.config.schema.config import Timeouts
from strowger_gateway.gateway.config.schema.connection import ClientFields
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import (
    GatewayError,
    InvalidRequest,
    Uncountable,
    UpstreamBroken,
    UpstreamError,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamSilent,
)
from strowger_gateway.schemas.events import Event, EventSource
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
    TokenRequest,
    WholeRequest,
)
from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest

_Whole = TypeVar("_Whole", Embeddings, TaskAnswer)

MOST_BYTES: Final = 64 * 1024 * 1024
STREAMED: Final = 4
"""How many times as many bytes a streamed answer may have: each token is an event of its own."""

COUNT_S: Final = 15.0
"""Seconds for a count: then an estimate serves its client better."""

_OPEN = ClientFields()
AFTER_END_S = 0.1
"""Seconds to wait for the end of the body after an end mark, to reuse the connection."""


_NO_ROUTE: Final = frozenset({404, 405, 501})
"""Statuses of a server that has conversations, and no route that counts them: that it refuses the
count says nothing about the account or the model."""


class HttpUpstream:
    """One provider behind one adapter. Safe for concurrent use; owns transport and credentials.

    credentials: `None` if the adapter's own headers are enough.
    client_fields: fields that the operator lets clients send, and fields that it withholds.
    """

    def __init__(
        self,
        name: str,
        adapter: Adapter,
        transport: Transport,
        timeouts: Timeouts,
        *,
        credentials: Credentials | None = None,
        client_fields: ClientFields = _OPEN,
        addresses: Sequence[str] = (),
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """addresses: of the provider, longest first; errors never show them to clients.

        most_bytes: of a whole answer; one with vectors may have more for each input.
        """
        self.name = name
        self.adapter = adapter
        allow, deny = client_fields.allow, client_fields.deny
        supports = restricted(adapter.supports, allow, deny)
        self.supports = replace(supports, carries=LostFields(adapter))
        self._transport = (
            transport if credentials is None else AuthorizedTransport(transport, credentials)
        )
        self._timeouts = timeouts
        self._whole_s, self._stream_s = total_of(timeouts)
        self._patience = patience_of(timeouts, USUAL), patience_of(timeouts, REASONING)
        self._begin_s = tuple([one.begin_s for one in self._patience])
        self._first_byte = first_byte_of(timeouts, USUAL), first_byte_of(timeouts, REASONING)
        self._head_reader = adapter if isinstance(adapter, HeadReader) else None
        plain = adapter.read_plain if isinstance(adapter, PlainReader) else None
        self._read_plain = plain if self._head_reader is None else None
        self._inputs = adapter if isinstance(adapter, InputsByModel) else None
        self._marked: dict[type[Decoder], bool] = {}
        self._addresses = tuple(addresses)
        self._most_bytes = most_bytes

    async def generate(self, request: GenerateRequest, call: Call) -> EventSource:
        """See Upstream.generate."""
        sent: GenerateRequest = request
        if isinstance(request, TokenRequest):
            sent = scope_lora_ids(request, call.tenant)
        if call.large:
            outbound = await self._encode_apart(sent, call.model, call.sending)
        else:
            outbound = self._encode(sent, call.model)
        started = now()
        begun = started if call.begun is None else call.begun
        over = min(begun + (self._stream_s if outbound.stream else self._whole_s), call.deadline)
        patience = self._patience[call.reasons]
        if outbound.stream:
            begin_s = self._begin_s[call.reasons]
        else:
            begin_s = self._first_byte[call.reasons].within_s(request)
        head_by = min(started + begin_s, over)
        reply = await self._exchange(outbound, started, head_by, call)
        reader = None
        try:
            kind = await self._check(reply, head_by)
            if not outbound.stream or kind.startswith("application/json"):
                if request.stream:
                    request = replace(request, stream=False)
                body = await reply.body(over, self._most_bytes, call.room)
                decode = partial(self._events, request, reply, body)
                if len(body) > LARGE:
                    yield await decoded_apart(decode, body, reply, call, self.name)
                else:
                    yield decode()
                return
            reader = self._reader(request, reply, started, patience, over)
            while piece := await reply.chunk(reader.by):
                try:
                    events = reader.read(piece)
                except UpstreamError:
                    # Before content, another backend can still answer, so these events are dropped.
                    if reader.content and reader.partial:
                        yield [*reader.partial]
                    raise
                sink = (yield [*events]) if events else None
                while sink is not None and not reader.ended:
                    reader.use(sink)
                    await reply.relay(reader.push, reader.by)
                    sink = (yield []) if reader.sink_is_full else None
                if reader.ended:
                    await _read_out(reply, min(now() + AFTER_END_S, over))
                    return
            yield reader.close()
        except UpstreamSilent as exc:
            if reader is not None:
                reader.explain(exc)
            raise
        except GatewayError as exc:
            self._explain(exc)
            raise
        finally:
            await reply.aclose()

    @property
    def whole_chat(self) -> WholeChat | None:
        """See PlainChats."""
        return None if self._read_plain is None else self._whole_chat

    async def _whole_chat(self, request: ChatRequest, call: Call) -> PlainAnswer | Sequence[Event]:
        """See WholeChat. `generate` of an answer that is not streamed, without a generator."""
        if call.large:
            outbound = await self._encode_apart(request, call.model, call.sending)
        else:
            outbound = self._encode(request, call.model)
        started = now()
        over = (started if call.begun is None else call.begun) + self._whole_s
        if over > call.deadline:
            over = call.deadline
        begin_s = self._first_byte[call.reasons].within_s(request)
        reply = await self._exchange(outbound, started, min(started + begin_s, over), call)
        try:
            if not 200 <= reply.status < 300:
                await self._check(reply, over)
            body = await reply.body(over, self._most_bytes, call.room)
            if len(body) > LARGE:
                await self._check(reply, over)
                whole = partial(self._plain_or_events, request, reply, body)
                return await decoded_apart(whole, body, reply, call, self.name)
            plain = None if self._read_plain is None else self._read_plain(body)
            if plain is not None:
                return plain  # its content-type is not needed
            await self._check(reply, over)
            decoder = self._decoder(request, reply)
            return [*decoder.feed("", body), *decoder.close()]
        except GatewayError as exc:
            self._explain(exc)
            raise
        finally:
            await reply.aclose()

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        most = (
            self.adapter.supports.inputs
            if self._inputs is None
            else self._inputs.inputs_of(call.model)
        )
        over = min(now() + self._whole_s, call.deadline)
        if most is None:
            return await self._embed(request, call, over, call.sending)
        parts = split_batches(request, most)
        if len(parts) == 1:
            return await self._embed(request, call, over, call.sending)
        answers = await side_by_side(
            parts, lambda one, sending: self._embed(one, call, over, sending), call.sending
        )
        return join_answers(answers)

    async def perform(self, request: TaskRequest, call: Call) -> TaskAnswer:
        """See TaskUpstream."""
        over = min(now() + self._whole_s, call.deadline)
        parts = task_parts(request, self.supports.items.get(request.task))
        if len(parts) == 1:
            return await self._perform(request, call, over, call.sending)
        answers = await side_by_side(
            [one for _, one in parts],
            lambda one, sending: self._perform(one, call, over, sending),
            call.sending,
        )
        starts = [start for start, _ in parts]
        return request.joined(list(zip(starts, answers, strict=True)))

    async def count_tokens(self, request: ChatRequest, call: Call) -> int:
        """See Upstream."""
        counter = self.adapter
        if not isinstance(counter, TokenCounter):
            raise Uncountable(
                f"{self.name}: its vendor does not count tokens; configure a tokenizer with a chat "
                "template (providers[].tokenizer)"
            )
        over = min(now() + min(self._whole_s, COUNT_S), call.deadline)
        try:
            outbound = counter.encode_count(request, call.model)
        except ENCODE_ERRORS as exc:
            raise unencodable(request, exc) from exc
        reply = await self._exchange(outbound, now(), over, call)
        try:
            if reply.status in _NO_ROUTE or (
                isinstance(counter, RecentTokenCounter) and reply.status in counter.cannot_count
            ):
                raise Uncountable(f"{self.name}: does not count tokens (status {reply.status})")
            await self._check(reply, over)
            body = await reply.body(over, self._most_bytes, call.room)
            count = partial(counter.counted, body)
            if len(body) > LARGE:  # some servers list all tokens
                return await decoded_apart(count, body, reply, call, self.name)
            return count()
        except GatewayError as exc:
            self._explain(exc)
            raise
        finally:
            await reply.aclose()

    def _explain(self, error: GatewayError) -> None:
        """Hide our addresses in an error, and name the setting that it needs."""
        hide_addresses(error, self._addresses)
        if isinstance(error, AnswerTooLarge):
            error.message = error.logged = f"{error.message} (providers[].max_answer_bytes)"

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _embed(
        self, request: EmbeddingsRequest, call: Call, over: float, sending: Sending
    ) -> Embeddings:
        most = self._most_bytes + VECTOR_BYTES * len(request.inputs)
        read = partial(self.adapter.embeddings, request)
        return await self._whole(request, call, over, sending, most, read)

    async def _perform(
        self, request: TaskRequest, call: Call, over: float, sending: Sending
    ) -> TaskAnswer:
        adapter = self.adapter
        assert isinstance(adapter, TaskDecoder), "its `Supports` has a task, so it decodes them"
        most, read = self._most_bytes, partial(adapter.decode_task, request)
        try:
            return await self._whole(request, call, over, sending, most, read)
        except UpstreamRefused as exc:
            if exc.about != "address":
                raise
            raise InvalidRequest(
                f"{self.name}: {request.task}: its server does not serve this",
                param="model",
                code="unsupported",
            ) from exc

    async def _whole(
        self,
        request: WholeRequest,
        call: Call,
        over: float,
        sending: Sending,
        most: int,
        read: Callable[[bytes], _Whole],
    ) -> _Whole:
        """over: loop time at which the last part must have arrived. most: bytes of the answer."""
        if call.large:
            outbound = await self._encode_apart(request, call.model, sending)
        else:
            outbound = self._encode(request, call.model)
        head_by = min(now() + self._first_byte[call.reasons].most_s, over)
        reply = await self._exchange(outbound, now(), head_by, call, sending)
        try:
            await self._check(reply, over)
            body = await reply.body(over, most, call.room)
            decode = partial(read, body)
            if len(body) > LARGE:
                return await decoded_apart(decode, body, reply, call, self.name)
            return decode()
        except GatewayError as exc:
            self._explain(exc)
            raise
        finally:
            await reply.aclose()

    def _events(self, request: GenerateRequest, reply: Reply, body: bytes) -> list[Event]:
        decoder = self._decoder(request, reply)
        return [*decoder.feed("", body), *decoder.close()]

    def _plain_or_events(
        self, request: ChatRequest, reply: Reply, body: bytes
    ) -> PlainAnswer | Sequence[Event]:
        plain = None if self._read_plain is None else self._read_plain(body)
        return self._events(request, reply, body) if plain is None else plain

    def _encode(self, request: Request, model: str) -> Outbound:
        """Encode by the adapter. Raises only InvalidRequest, whatever the client sends."""
        try:
            return self.adapter.encode(request, model)
        except ENCODE_ERRORS as exc:
            raise unencodable(request, exc) from exc

    async def _encode_apart(self, request: Request, model: str, sending: Sending) -> Outbound:
        """Encode a large request in a thread. It may wait for one."""
        with own_wait(sending):
            return await asyncio.to_thread(self._encode, request, model)

    def _decoder(self, request: GenerateRequest, reply: Reply) -> Decoder:
        if self._head_reader is not None:
            return self._head_reader.decoder_of(request, reply.headers)
        return self.adapter.decoder(request)

    def _reader(
        self,
        request: GenerateRequest,
        reply: Reply,
        started: float,
        patience: Patience,
        over: float,
    ) -> EventReader:
        decoder = self._decoder(request, reply)
        return EventReader(
            FRAMING[self.adapter.framing](self.name, min(MAX_FRAME, self._most_bytes)),
            decoder,
            self._end_marked(decoder),
            self.name,
            started=started,
            patience=patience,
            over=over,
            most_bytes=STREAMED * self._most_bytes,
        )

    async def _exchange(
        self,
        outbound: Outbound,
        started: float,
        head_by: float,
        call: Call,
        sending: Sending | None = None,
    ) -> Reply:
        trace = call.trace
        return await self._transport.exchange(
            outbound,
            connect_by=min(started + self._timeouts.connect_s, head_by),
            head_by=head_by,
            lines=call.pool if trace is None else trace.lines + call.pool,
            sending=sending or call.sending,
            holder=call.holder,
            level=call.level,
        )

    async def _check(self, reply: Reply, by: float) -> str:
        """Return the content-type, in lower case.

        Raises the error of a status of 300 or more, or of an answer that is a web page.
        """
        if 200 <= reply.status < 300:
            kind = reply.headers.get("content-type", "").lower()
            if kind.startswith("text/html"):
                raise UpstreamBroken("sent a web page instead of an answer", upstream=self.name)
            return kind
        if reply.status < 400:
            raise UpstreamBroken(
                f"a redirect (status {reply.status}); check base_url", upstream=self.name
            )
        raise self._refusal(reply, await error_body(reply, by))

    def _refusal(self, reply: Reply, body: bytes) -> GatewayError:
        error = self.adapter.error(reply.status, with_date(reply.headers), body)
        if isinstance(error, UpstreamFailed):
            error.unread = True  # vendors charge for no answer of status 5xx
        return error

    def _end_marked(self, decoder: Decoder) -> EndMarked | None:
        """Return the decoder if its dialect has an end mark.

        Cached per class: isinstance with a protocol is slow.
        """
        kind = type(decoder)
        known = self._marked.get(kind)
        if known is None:
            known = self._marked[kind] = isinstance(decoder, EndMarked)
        return cast(EndMarked, decoder) if known else None


async def _read_out(reply: Reply, by: float) -> None:
    """Read past the end mark: the answer is complete, so later failures do not matter."""
    with contextlib.suppress(UpstreamError):
        while await reply.chunk(by):
            pass
