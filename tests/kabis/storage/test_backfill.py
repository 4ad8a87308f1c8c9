"""A party that joins copies what is kept from the others, whoever of them lies, is silent or lacks it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.kabis.chain import batch_of, key_of, submitted
from tests.kabis.ledger.changing import FOUNDING, Changing, member, replaced
from tests.kabis.storage.test_seat import Party, view_at
from veristream.kabis.channels.interfaces import Storage
from veristream.kabis.log.disk.files import Full
from veristream.kabis.protocol.actions import Hole, LowWater, SetTopic
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.batch import Batch
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.partitions import StreamName
from veristream.kabis.storage import backfill
from veristream.kabis.storage.backfill import Backfill, Progress
from veristream.kabis.storage.commit import Committer
from veristream.kabis.storage.core import StorageCore
from veristream.kabis.storage.messages import Standing
from veristream.kabis.wire.connection import ConnectionLostError
from veristream_testing.storage_client import fetch_digest

JOINED = replaced(FOUNDING, "s0", member("s4"))
Answer = Callable[[bytes], bytes | Absent | Below]


def batches(count: int, producer: str = "alice", partition: int = 0) -> list[Batch]:
    made: list[Batch] = []
    for number in range(count):
        previous = made[-1].digest() if made else ZERO_DIGEST
        made.append(
            batch_of(
                b"%d" % number,
                b"x",
                sequence=2 * number,
                previous=previous,
                producer=producer,
                partition=partition,
            )
        )
    return made


ALICE, BOB = batches(6), batches(3, "bob", 1)
EVERY = {batch.digest(): batch.encode() for batch in (*ALICE, *BOB)}


def changed_chain() -> Changing:
    """A chain with nine batches before s4 took the place of s0."""
    chain = Changing()
    chain.block(chain.act("admin", SetTopic("orders", 2, validated=True)))
    chain.block(*map(submitted, (*ALICE[:4], *BOB)))
    chain.block(*map(submitted, ALICE[4:]))
    chain.set_members(JOINED, 6)
    chain.grow(6)
    return chain


class Donor:
    """A storage party as the joining one sees it; `asked` counts the requests."""

    def __init__(self, name: str, answer: Answer) -> None:
        self.name, self._answer, self.asked = name, answer, 0

    async def fetch_bytes(self, digest: bytes) -> bytes | Absent | Below:
        self.asked += 1
        await asyncio.sleep(0)
        return self._answer(digest)


def honest(digest: bytes) -> bytes | Absent | Below:
    return EVERY.get(digest, Absent())


def silent(digest: bytes) -> bytes | Absent | Below:
    raise ConnectionLostError("nobody answers")


def lacking(digest: bytes) -> bytes | Absent | Below:
    return Absent()


def altering(digest: bytes) -> bytes | Absent | Below:
    """The right header with other events."""
    data = bytearray(EVERY[digest])
    data[-1] ^= 1
    return bytes(data)


def confusing(digest: bytes) -> bytes | Absent | Below:
    """A good batch, but another one."""
    return next(data for each, data in EVERY.items() if each != digest)


def unsigned(digest: bytes) -> bytes | Absent | Below:
    """The right header and events, without the producer's signature."""
    batch = Batch.decode(EVERY[digest])
    return replace(batch, signed=replace(batch.signed, signature=bytes(64))).encode()


def garbled(digest: bytes) -> bytes | Absent | Below:
    return b"garbage"


class Joining:
    def __init__(self, chain: Changing, donors: Sequence[Donor], name: str = "s4") -> None:
        self.party = Party(chain, name, [key_of(name)])
        self.party.see(chain.ledger.height)
        self.donors, self.progress = list(donors), Progress()

    def run(self, timeout_s: float = 30.0, *later: Callable[[], None]) -> None:
        """Runs the backfill until it ends, and once more after each of what happens later."""

        async def work() -> None:
            log = self.party.log
            committer = Committer(log.sync, log.durable, 0.0)
            donors: list[Storage] = self.donors  # type: ignore[assignment]
            filling = Backfill(
                self.party.core, self.party.gate.view, committer, lambda: donors, self.progress
            )
            task = asyncio.create_task(committer.run())
            try:
                async with asyncio.timeout(timeout_s):
                    await filling.run()
                    for happen in later:
                        happen()
                        await filling.run()
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        asyncio.run(work())

    def kept(self) -> list[bytes]:
        found = (fetch_digest(self.party.core, digest) for digest in EVERY)
        return [each for each in found if isinstance(each, bytes)]


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "RETRY_S", 0.001)


def test_a_party_that_joins_copies_everything_once() -> None:
    donors = [Donor("s1", honest), Donor("s2", honest)]
    joining = Joining(changed_chain(), donors)
    joining.run()
    assert sorted(joining.kept()) == sorted(EVERY.values())
    assert joining.progress == Progress(missing=0, copied=9, refused=0)
    assert sum(donor.asked for donor in donors) == 9
    assert min(donor.asked for donor in donors) > 0, "they share the work"


def test_the_copies_of_a_partition_are_in_their_order() -> None:
    joining = Joining(changed_chain(), [Donor("s1", honest)])
    joining.run()
    found = joining.party.core.fetch_range(StreamName("orders", 0, "alice", 0), 0, 1 << 20)
    assert found == tuple(batch.encode() for batch in ALICE)


@pytest.mark.parametrize("fault", [altering, confusing, unsigned, garbled])
def test_a_donor_that_lies_is_found_out_and_another_is_asked(
    fault: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    liar = Donor("s1", fault)
    joining = Joining(changed_chain(), [liar, Donor("s2", honest)])
    with caplog.at_level(logging.WARNING):
        joining.run()
    assert sorted(joining.kept()) == sorted(EVERY.values())
    assert (joining.progress.missing, joining.progress.copied) == (0, 9)
    assert joining.progress.refused == liar.asked > 0
    assert "s1 returned a wrong batch, another party is asked" in caplog.text


@pytest.mark.parametrize("fault", [silent, lacking])
def test_a_donor_that_is_silent_or_lacks_it_only_costs_time(fault: Answer) -> None:
    joining = Joining(changed_chain(), [Donor("s1", fault), Donor("s2", honest), Donor("s0", fault)])
    joining.run()
    assert sorted(joining.kept()) == sorted(EVERY.values())
    assert joining.progress == Progress(missing=0, copied=9, refused=0)


def test_what_nobody_returns_stays_missing_and_is_asked_for_again() -> None:
    withheld = ALICE[2].digest()
    rounds = [0]

    def later(digest: bytes) -> bytes | Absent | Below:
        if digest == withheld:
            rounds[0] += 1
            if rounds[0] < 3:
                return Absent()
        return EVERY[digest]

    joining = Joining(changed_chain(), [Donor("s1", later)])
    joining.run()
    assert rounds == [3]
    assert joining.progress == Progress(missing=0, copied=9, refused=0)


def test_a_party_that_was_killed_copies_only_the_rest() -> None:
    chain = changed_chain()
    joining = Joining(chain, [Donor("s1", lambda digest: EVERY[digest] if digest in rest else Absent())])
    rest = {batch.digest() for batch in ALICE[:3]}
    with pytest.raises(TimeoutError):
        joining.run(0.2)
    assert (joining.progress.missing, joining.progress.copied) == (6, 3)
    donor = Donor("s1", honest)
    again = Joining(chain, [donor])
    log = joining.party.log
    log.crash()
    again.party.log = log
    party = again.party
    party.core = StorageCore(chain.ledger.genesis, "s4", party.seat, log, gate=party.gate)
    again.run()
    assert donor.asked == 6
    assert again.progress == Progress(missing=0, copied=6, refused=0)


def test_what_was_released_or_skipped_is_not_copied() -> None:
    chain = changed_chain()
    hole = Hole("orders", 1, 0, BOB[0].digest())
    chain.block(chain.act("admin", LowWater("orders", 0, 6)), chain.act("admin", hole))
    donor = Donor("s1", honest)
    joining = Joining(chain, [donor])
    joining.run()
    kept = [*ALICE[3:], *BOB[1:]]
    assert sorted(joining.kept()) == sorted(batch.encode() for batch in kept)
    assert (joining.progress, donor.asked) == (Progress(0, 5, 0), 5)


def test_a_party_copies_what_it_lacks_once_another_has_left() -> None:
    """It was down, so F + 1 others gave the receipts of three batches; one of them is not in force now."""
    chain, donor = Changing(), Donor("s2", honest)
    chain.block(chain.act("admin", SetTopic("orders", 2, validated=True)))
    staying = Joining(chain, [donor], "s1")
    for batch in (*ALICE[:2], *ALICE[3:], BOB[0]):
        staying.party.core.copy(batch.signed.header, batch.digest(), batch.encode())
    staying.party.log.sync()
    chain.block(*map(submitted, (*ALICE, *BOB)))
    chain.set_members(JOINED, 6)
    staying.party.see(chain.ledger.height)
    with pytest.raises(TimeoutError):
        staying.run(0.05)
    assert (staying.progress, donor.asked) == (Progress(), 0), "nobody has left yet"
    assert staying.progress.count_missing(staying.party.gate.view.memberships) == 1, "somebody will"
    staying.party.see(6)
    staying.run()
    assert sorted(staying.kept()) == sorted(EVERY.values())
    assert (staying.progress, donor.asked) == (Progress(missing=0, copied=3, refused=0), 3)
    assert staying.progress.count_missing(staying.party.gate.view.memberships) == 0


def test_a_party_copies_nothing_while_the_storage_parties_stay() -> None:
    donor, chain = Donor("s2", honest), Changing()
    chain.block(chain.act("admin", SetTopic("orders", 2, validated=True)))
    chain.block(*map(submitted, ALICE))
    chain.set_members(replaced(FOUNDING, "v0", member("v4")), 5)
    chain.grow(6)
    staying = Joining(chain, [donor], "s1")
    with pytest.raises(TimeoutError):
        staying.run(0.05)
    assert (staying.progress, donor.asked) == (Progress(), 0)
    assert staying.progress.count_missing(staying.party.gate.view.memberships) == 0


def test_what_a_party_has_let_go_for_its_size_is_not_copied_again() -> None:
    chain, donor = changed_chain(), Donor("s2", honest)
    staying = Joining(chain, [donor], "s1")
    core = staying.party.core
    for batch in (*ALICE[:3], *ALICE[4:]):
        core.copy(batch.signed.header, batch.digest(), batch.encode())
    staying.party.log.sync()
    core.raise_low_water(StreamName("orders", 0, "alice", 0), 4)
    core._forget_released()
    staying.run()
    assert staying.progress == Progress(missing=0, copied=4, refused=0)
    assert donor.asked == 4, "one of alice and three of bob"


def test_a_party_looks_again_after_every_change() -> None:
    chain, donor = changed_chain(), Donor("s1", honest)
    joining = Joining(chain, [donor])
    late = batches(4, "bob", 1)[3]
    missing: list[int] = []

    def change_again() -> None:
        height, view = chain.ledger.height, joining.party.gate.view
        chain.block(submitted(late, ("s1", "s2")))
        chain.set_members(replaced(JOINED, "s2", member("s5")), height + 5)
        chain.grow(height + 5)
        for number in range(height + 1, height + 6):
            view.take(chain.certified_block(number))
        missing.append(joining.progress.count_missing(view.memberships))

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EVERY, late.digest(), late.encode())
        joining.run(30.0, change_again)
        assert sorted(joining.kept()) == sorted(EVERY.values())
    assert missing == [1], "it knows that it has to look"
    assert (joining.progress, donor.asked) == (Progress(missing=0, copied=10, refused=0), 10)


def test_a_party_waits_until_it_is_a_member() -> None:
    donor = Donor("s1", honest)
    joining = Joining(changed_chain(), [donor])
    joining.party.gate.view = view_at(joining.party.chain, 4)
    assert joining.party.seat.standing is Standing.COMING
    with pytest.raises(TimeoutError):
        joining.run(0.05)
    assert donor.asked == 0
    joining.party.gate.view = view_at(joining.party.chain, 6)
    joining.run()
    assert joining.progress.copied == 9


def test_a_full_disk_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    joining = Joining(changed_chain(), [Donor("s1", honest)])
    log, failures = joining.party.log, [3]
    append = log.append

    def full(*parts: bytes) -> int:
        if failures[0]:
            failures[0] -= 1
            raise Full("no room", "make room")
        return append(*parts)

    monkeypatch.setattr(log, "append", full)
    joining.run()
    assert (joining.progress.missing, joining.progress.copied) == (0, 9)


def test_no_more_is_asked_for_at_once_than_fits_into_memory() -> None:
    running, most = [0], [0]

    class Slow(Donor):
        async def fetch_bytes(self, digest: bytes) -> bytes | Absent | Below:
            running[0] += 1
            most[0] = max(most[0], running[0])
            await asyncio.sleep(0.001)
            running[0] -= 1
            return EVERY[digest]

    monkey = pytest.MonkeyPatch()
    monkey.setattr(backfill, "AT_ONCE", 3)
    try:
        Joining(changed_chain(), [Slow("s1", honest)]).run()
    finally:
        monkey.undo()
    assert most == [3]


def test_a_party_copies_at_a_bounded_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sleeps as long as the rate demands; the clock does not count."""
    slept: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(backfill.asyncio, "sleep", note)
    size = sum(map(len, EVERY.values()))
    monkeypatch.setattr(backfill, "BYTES_PER_S", size // 100)
    Joining(changed_chain(), [Donor("s1", honest)]).run()
    assert 90 < max(slept) <= 101
