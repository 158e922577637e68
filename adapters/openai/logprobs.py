"""Log probabilities of the OpenAI dialect, in its two formats.

Chat: a list of objects. Completions: parallel lists; the surface computes a `text_offset` that the
server did not send.
"""

from collections.abc import Iterable

from msgspec import Raw

from strowger_gateway.adapters.openai.wire import Logprobs, TopLogprob, WireTokenLogprob, read_token
from strowger_gateway.schemas.events import TokenLogprob


def token_logprobs(wire: Logprobs | None) -> tuple[TokenLogprob, ...]:
    """Return one entry per token; () if there are none. Raises one of `UNREADABLE`."""
    if wire is None:
        return ()
    if wire.content is not None:
        return chat_logprobs(wire.content)
    tokens = wire.tokens or ()
    values = wire.token_logprobs or ()
    tops = wire.top_logprobs or ()
    offsets = [None if one is None or one < 0 else one for one in wire.text_offset or ()]
    return tuple(
        TokenLogprob(
            token=token,
            logprob=values[place] if place < len(values) else None,
            top=_ranked(tops[place] if place < len(tops) else None),
            offset=offsets[place] if place < len(offsets) else None,
        )
        for place, token in enumerate(tokens)
    )


def refusal_logprobs(wire: Logprobs | None) -> tuple[TokenLogprob, ...]:
    """Return one entry per token of a refusal; () if there are none.

    Raises one of `UNREADABLE`.
    """
    if wire is None or wire.refusal is None:
        return ()
    return chat_logprobs(wire.refusal)


def chat_logprobs(tokens: Iterable[Raw]) -> tuple[TokenLogprob, ...]:
    """Return one entry per token of a chat. Raises one of `UNREADABLE`."""
    return tuple([_chat(read_token(one)) for one in tokens])


def _chat(one: WireTokenLogprob) -> TokenLogprob:
    return TokenLogprob(
        token=one.token,
        logprob=one.logprob,
        bytes=_odd_bytes(one),
        top=tuple(
            TokenLogprob(token=top.token, logprob=top.logprob, bytes=_odd_bytes(top))
            for top in one.top_logprobs or ()
        ),
    )


def _odd_bytes(one: WireTokenLogprob | TopLogprob) -> tuple[int, ...] | None:
    """Return the bytes if they differ from the token's text."""
    given = one.bytes
    return None if given is None or given == tuple(one.token.encode()) else given


def _ranked(top: dict[str, float] | None) -> tuple[TokenLogprob, ...]:
    """Sort best first, because servers do not order the map."""
    ranked = sorted((top or {}).items(), key=lambda item: -item[1])
    return tuple(TokenLogprob(token=token, logprob=value) for token, value in ranked)
