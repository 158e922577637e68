"""What counts towards limits goes on counting, as long as before, after a hand-over."""

from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.config.schema.limits import Limit, LimitWho
from strowger_gateway.gateway.governance.limits.carried import carried, carry
from strowger_gateway.gateway.governance.limits.lease_leader import LimitLeaseLeader
from strowger_gateway.gateway.governance.limits.limits import RequestLimits

SECOND = 1_000_000_000
LIMITS = (Limit(name="few", who=LimitWho(key="ci"), requests=50, tokens=100_000, per="minute"),)

steps = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3), st.integers(0, 4000)))


def rooms(limits: RequestLimits, at: int) -> tuple[int, int]:
    account = limits.account("few", "")
    assert account is not None
    assert account.requests is not None
    assert account.tokens is not None
    account.expire(at)
    return account.requests.room, account.tokens.room


@settings(max_examples=50)
@given(before=steps, after=steps)
def test_the_room_is_the_same_at_any_later_time(
    before: list[tuple[int, int, int]], after: list[tuple[int, int, int]]
) -> None:
    at = 1_000 * SECOND
    old, new = RequestLimits(LIMITS, lambda: at), RequestLimits(LIMITS, lambda: at)

    def use(limits: tuple[RequestLimits, ...], requests: int, tokens: int) -> None:
        for one in limits:
            account = one.account("few", "")
            assert account is not None
            assert account.requests is not None
            assert account.tokens is not None
            account.requests.take(requests, at)
            account.tokens.take(tokens, at)

    for seconds, requests, tokens in before:
        at += seconds * SECOND
        use((old,), requests, tokens)
    carry(new.account, carried(old.accounts(), at), at)
    led = LimitLeaseLeader(lambda: LIMITS, lambda: at)
    carry(led.account, carried(old.accounts(), at), at)
    again = RequestLimits(LIMITS, lambda: at)
    carry(again.account, carried(led.accounts(), at), at)
    assert rooms(new, at) == rooms(again, at) == rooms(old, at)
    for seconds, requests, tokens in after:
        at += seconds * SECOND
        use((old, new), requests, tokens)
        assert rooms(new, at) == rooms(old, at)
