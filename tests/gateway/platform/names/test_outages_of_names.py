"""One vendor's DNS or address fails: other vendors notice nothing, and its models are answered."""

import os

import pytest

from tests.gateway.platform.names.outage import Reply, isolated, isolation_missing

SIZE_S = float(os.environ.get("STROWGER_OUTAGE_S", "20"))
"""Seconds of load, in the nightly run."""

needs_a_network = pytest.mark.skipif(
    bool(isolation_missing()), reason=f"no network of its own: {isolation_missing()}"
)


def answered(replies: list[Reply]) -> set[tuple[int, str]]:
    return {(one.status, one.text) for one in replies}


def slowest(replies: list[Reply]) -> float:
    return max(one.seconds for one in replies)


@needs_a_network
def test_a_vendor_whose_dns_is_silent_stops_no_other_vendor_and_its_models_are_answered() -> None:
    found = isolated("silent_dns", 2.0, connect_s=1.0).replies

    assert answered(found["bad"]) == {(200, "b")}
    assert answered(found["other"]) == {(200, "fine")}
    assert answered(found["number"]) == {(200, "gone")}


@needs_a_network
@pytest.mark.nightly
@pytest.mark.parametrize("case", ["silent_dns", "slow_dns"])
def test_neither_does_one_whose_dns_fails_for_longer(case: str) -> None:
    found = isolated(case, SIZE_S).replies

    assert answered(found["bad"]) == {(200, "b")}
    assert answered(found["other"]) == {(200, "fine")}
    assert slowest(found["other"][1:]) < 1.0
    assert slowest(found["bad"]) < 8.0


@needs_a_network
@pytest.mark.nightly
def test_a_vendor_is_reached_at_its_last_addresses_while_its_dns_fails() -> None:
    result = isolated("failing_dns", SIZE_S)

    assert answered(result.replies["bad"]) == {(200, "dead")}
    assert sum("DNS: no address for api.dead.test" in line for line in result.log) == 1


@needs_a_network
@pytest.mark.nightly
def test_requests_on_connections_that_have_become_a_black_hole_are_answered_by_the_next() -> None:
    found = isolated("black_hole", SIZE_S).replies

    for phase in ("plain", "streamed", "later"):
        assert answered(found[phase]) == {(200, "b")}
        assert slowest(found[phase]) < 35.0


@needs_a_network
@pytest.mark.nightly
def test_requests_reach_the_address_that_a_name_has_moved_to() -> None:
    found = isolated("moved", SIZE_S).replies

    assert answered(found["plain"] + found["streamed"]) <= {(200, "moved"), (200, "b")}
    assert (200, "moved") in answered(found["later"]) <= {(200, "moved"), (200, "b")}
    assert slowest([*found["plain"], *found["streamed"], *found["later"]]) < 35.0


@needs_a_network
@pytest.mark.nightly
def test_a_handshake_that_hangs_costs_few_requests_and_no_answer() -> None:
    found = isolated("hanging_tls", SIZE_S).replies["hanging"]

    assert answered(found) == {(200, "b")}
    assert sum(one.seconds > 2.0 for one in found) < 12


@needs_a_network
@pytest.mark.nightly
def test_a_backend_that_thinks_survives_a_moment_without_network_and_is_left_after_longer() -> None:
    found = isolated("thinking", SIZE_S).replies

    assert answered(found["blip"]) == {(200, "gone")}
    assert answered(found["lost"]) == {(200, "b")}
    assert slowest(found["lost"]) < 40.0
