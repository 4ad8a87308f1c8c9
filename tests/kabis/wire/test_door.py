"""Who may enter a party, and who has to leave: the door without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from tests.kabis.chain import key_of
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.wire.door import Door, Entrant
from veristream.kabis.wire.handshake import Peer, Role
from veristream.kabis.wire.quotas import Quotas
from veristream.kabis.wire.refusals import REFUSALS_MAX, Refusals
from veristream.kabis.wire.turns import Bucket, Share, Turns

QUOTAS = Quotas(
    connections_for_parties=4,
    connections_per_identity=5,
    half_open_max=6,
    half_open_per_address=4,
    handshakes_per_s=10.0,
)


@dataclass(eq=False)
class Caller:
    """A connection that only notes what happens to it."""

    host: str = "10.0.0.1"
    has_spoken: bool = False
    closed: bool = False
    unsent_bytes: int = 0
    started: list[int] = field(default_factory=list)
    unblocked: int = 0

    def start_now(self, number: int, _body: object, _size: int) -> None:
        self.started.append(number)

    def unblock(self) -> None:
        self.unblocked += 1

    def abort(self) -> None:
        self.closed = True


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def first(among: Sequence[Entrant]) -> Entrant:
    return among[0]


def with_door(test: Callable[[Door, Clock], None], quotas: Quotas = QUOTAS, places: int = 24) -> None:
    async def run() -> None:
        clock = Clock()
        test(Door(quotas, places, Turns(), clock, first), clock)

    asyncio.run(run())


def peer(name: str, role: Role = Role.PRODUCER) -> Peer:
    return Peer(role, name, key_of(name).public)


def limits_of(door: Door) -> dict[tuple[str, str], int]:
    return {(each.who, each.limit): each.count for each in door.refusals.report().refusals}


def test_of_too_many_half_open_callers_one_of_the_busiest_address_goes() -> None:
    def test(door: Door, _clock: Clock) -> None:
        crowd = [Caller() for _ in range(6)]
        for each in crowd:
            door.enter(each)
        assert sum(each.closed for each in crowd) == 2, "four per address"
        others = [Caller(f"10.0.0.{number}") for number in range(2, 7)]
        for each in others:
            door.enter(each)
        assert not any(each.closed for each in others)
        assert sum(each.closed for each in crowd) == 6 - 1, "six in total, and each address has one"
        assert limits_of(door) == {("address 10.0.0.1", "half-open connections"): 5}

    with_door(test)


def test_who_has_spoken_stays_longer_than_who_has_not() -> None:
    def test(door: Door, _clock: Clock) -> None:
        speaking = Caller(has_spoken=True)
        door.enter(speaking)
        silent = [Caller() for _ in range(20)]
        for each in silent:
            door.enter(each)
        assert not speaking.closed
        assert door.admit(speaking, peer("alice")) is None

    with_door(test)


def test_an_address_that_knocks_too_often_is_turned_away_until_later() -> None:
    def test(door: Door, clock: Clock) -> None:
        assert [door.knock("10.0.0.1") for _ in range(11)] == [True] * 10 + [False]
        assert door.knock("10.0.0.2")
        clock.now += 0.15
        assert [door.knock("10.0.0.1") for _ in range(3)] == [True, True, False]
        assert limits_of(door) == {("address 10.0.0.1", "rate of handshakes"): 2}

    with_door(test)


def test_an_identity_has_no_more_than_its_connections() -> None:
    def test(door: Door, _clock: Clock) -> None:
        callers = [Caller() for _ in range(6)]
        said = [door.admit(each, peer("mallory")) for each in callers]
        assert said == [None] * 5 + ["producer mallory has 5 connections, the most"]
        assert limits_of(door) == {("producer mallory", "connections"): 1}
        assert door.admit(Caller(), peer("mallory", Role.CONSUMER)) is not None, "it is the same key"
        door.leave(callers[0])
        assert door.admit(Caller(), peer("mallory")) is None

    with_door(test)


def test_clients_leave_room_for_parties_and_the_greediest_client_for_others() -> None:
    def test(door: Door, _clock: Clock) -> None:
        greedy = [Caller() for _ in range(10)]
        for number, each in enumerate(greedy):
            assert door.admit(each, peer(f"mallory-{number % 2}")) is None
        for number in range(door.clients_max - 10):
            assert door.admit(Caller(), peer(f"client-{number}")) is None
        assert door.admit(Caller(), peer("alice")) is None, "one of mallory's goes"
        assert sum(each.closed for each in greedy) == 1
        parties = [peer(f"v{number}", Role.VALIDATOR) for number in range(4)]
        assert [door.admit(Caller(), each) for each in parties] == [None] * 4
        assert sum(each.closed for each in greedy) == 1, "parties have places of their own"

    with_door(test)


def test_if_nobody_is_greedy_the_last_one_is_refused() -> None:
    def test(door: Door, _clock: Clock) -> None:
        for number in range(door.clients_max):
            assert door.admit(Caller(), peer(f"client-{number}")) is None
        assert door.admit(Caller(), peer("alice")) == "all places are taken"

    with_door(test)


def test_anonymous_callers_of_an_address_are_one_identity() -> None:
    def test(door: Door, _clock: Clock) -> None:
        said = [door.admit(Caller(), peer(f"key-{number}", Role.ANONYMOUS)) for number in range(6)]
        assert said[:5] == [None] * 5 and said[5] is not None
        assert limits_of(door) == {("address 10.0.0.1", "connections"): 1}
        assert door.admit(Caller("10.0.0.2"), peer("key-0", Role.ANONYMOUS)) is None

    with_door(test)


def test_a_client_that_broke_the_rules_has_to_wait_and_a_party_does_not() -> None:
    def test(door: Door, clock: Clock) -> None:
        for name, role in (("mallory", Role.PRODUCER), ("v1", Role.VALIDATOR)):
            entrant = Caller()
            assert door.admit(entrant, peer(name, role)) is None
            share = door.share_of(entrant)
            assert share is not None
            door.ban(share)
        assert door.admit(Caller(), peer("mallory")) == (
            "producer mallory broke the rules of the wire, and has to wait"
        )
        assert door.admit(Caller(), peer("v1", Role.VALIDATOR)) is None
        assert door.admit(Caller(), peer("alice")) is None
        assert limits_of(door)[("producer mallory", "ban")] == 1
        clock.now += QUOTAS.ban_s
        assert door.admit(Caller(), peer("mallory")) is None

    with_door(test)


def test_what_no_honest_client_sends_counts_tenfold() -> None:
    def test(door: Door, clock: Clock) -> None:
        entrant = Caller()
        door.admit(entrant, peer("mallory"))
        share = door.share_of(entrant)
        assert share is not None
        level = share.requests_rate.level
        door.blame(peer("mallory"), "bad transactions")
        assert share.requests_rate.level == level - 9
        door.blame(peer("v1", Role.VALIDATOR), "bad transactions")
        door.blame(peer("bob"), "bad transactions")
        assert share.requests_rate.level == level - 9
        assert limits_of(door) == {
            (f"{who}", "bad transactions"): 1
            for who in ("producer mallory", "validator v1", "producer bob")
        }

    with_door(test)


def test_a_validator_takes_fewer_bytes_unless_it_is_told_otherwise() -> None:
    expected = Quotas(requests_per_s=1000.0, bytes_per_s=float(2 << 20), answer_bytes_per_s=float(8 << 20))
    assert Quotas().of_validator() == expected
    assert Quotas(transaction_bytes_per_s=5.0).of_validator().bytes_per_s == 5.0
    assert Quotas(bytes_per_s=3.0).of_validator().bytes_per_s == 3.0


@pytest.mark.parametrize("field_name", ["connections_max", "files_reserved", "bytes_per_s"])
def test_quotas_are_positive_and_leave_room_for_files(field_name: str) -> None:
    with pytest.raises(ModelError, match=f"the quota {field_name} must be positive"):
        replace(Quotas(), **{field_name: 0})
    assert Quotas().places(1024) == 1024 - 256
    assert Quotas().places(1 << 16) == 4096
    with pytest.raises(EnvironmentFailure, match="256 open files, and 256 are reserved"):
        Quotas().places(256)


def test_reports_do_not_grow_without_end() -> None:
    refusals = Refusals()
    for number in range(3 * REFUSALS_MAX):
        refusals.note(f"address {number}", "connections")
    report = refusals.report()
    assert len(report.refusals) == REFUSALS_MAX + 1
    assert (report.refusals[0].who, report.refusals[0].count) == ("others", 2 * REFUSALS_MAX)
    assert type(report).decode(report.encode()) == report


# Turns


def share_of(who: str, quotas: Quotas, notes: list[tuple[str, str]]) -> Share:
    now = asyncio.get_running_loop().time()
    rates = (Bucket.full(quotas.requests_per_s, now), Bucket.full(quotas.bytes_per_s, now))
    return Share(who, quotas, *rates, lambda who, limit: notes.append((who, limit)))


def test_one_request_of_each_identity_starts_before_the_second_of_any() -> None:
    async def test() -> None:
        turns, notes = Turns(), []
        flood, honest = Caller(), Caller()
        flooding, other = share_of("mallory", Quotas(), notes), share_of("alice", Quotas(), notes)
        for number in range(500):
            turns.add(flooding, (flood, number, b"", 0))
        for number in range(3):
            turns.add(other, (honest, number, b"", 0))
        await asyncio.sleep(0)
        assert honest.started == [0, 1, 2]
        assert len(flood.started) <= 8
        while len(flood.started) < 500:
            await asyncio.sleep(0)
        assert flood.started == [*range(500)]

    asyncio.run(test())


def test_past_its_rate_an_identity_waits_and_nobody_else() -> None:
    async def test() -> None:
        turns, notes = Turns(), list[tuple[str, str]]()
        slow = share_of("mallory", replace(Quotas(), requests_per_s=5.0), notes)
        other = share_of("alice", Quotas(), notes)
        flood, honest = Caller(), Caller()
        for number in range(8):
            turns.add(slow, (flood, number, b"", 0))
        for number in range(50):
            turns.add(other, (honest, number, b"", 0))
        while len(honest.started) < 50:
            await asyncio.sleep(0)
        assert 5 <= len(flood.started) < 8
        assert notes == [("mallory", "rate of requests")]
        while len(flood.started) < 8:
            await asyncio.sleep(0.01)

    asyncio.run(test())


def test_a_request_of_a_closed_connection_is_not_started() -> None:
    async def test() -> None:
        turns, share = Turns(), share_of("mallory", Quotas(), [])
        gone = Caller(closed=True)
        share.begin(10)
        turns.add(share, (gone, 1, b"", 10))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert gone.started == [] and (share.requests, share.request_bytes) == (0, 0)

    asyncio.run(test())


def test_all_connections_of_an_identity_read_on_when_it_has_less_in_work() -> None:
    async def test() -> None:
        notes: list[tuple[str, str]] = []
        share = share_of("mallory", replace(Quotas(), requests_per_identity=2), notes)
        caller = Caller()
        share.connections[caller] = None
        share.begin(1)
        assert not share.is_full
        share.begin(1)
        assert share.is_full and notes == [("mallory", "requests in work")]
        share.end(1)
        assert caller.unblocked == 1

    asyncio.run(test())
