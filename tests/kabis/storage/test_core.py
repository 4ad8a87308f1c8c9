"""A storage party's rules, over a log in memory and over one on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kabis.storage.chain import (
    ALICE,
    BOB,
    CHAIN,
    GENESIS,
    STORES,
    STREAM,
    batch,
    certificate,
)
from veristream.kabis.log.disk.log import Log, LogOptions
from veristream.kabis.log.disk.repair import repair
from veristream.kabis.log.disk.segment import HEADER_BYTES
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.batch import Batch
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.keys import SignatureError
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.plain import PlainAppend, PlainEntry, PlainSlice
from veristream.kabis.protocol.records import encode_leaf
from veristream.kabis.storage import core as core_module
from veristream.kabis.storage.admission import StorageRefusedError
from veristream.kabis.storage.core import Appended, NotDurableError, StorageCore
from veristream.kabis.storage.interface import StorageLog
from veristream.kabis.storage.messages import Batches
from veristream.kabis.storage.ranges import Ranges
from veristream_testing.simulation.memory_log import MemoryLog
from veristream_testing.storage_client import fetch_digest, fetch_first

PLACE = PartitionName("clicks", 3)


@pytest.fixture(params=["memory", "disk"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StorageLog]:
    if request.param == "memory":
        yield MemoryLog()
    else:
        with Log(tmp_path) as on_disk:
            yield on_disk


def party(log: StorageLog) -> StorageCore:
    return StorageCore(GENESIS, "s0", STORES[0], log)


def store(core: StorageCore, one: Batch) -> core_module.StoredBatch:
    return core.store(one.encode(), "alice", ALICE.public)


def plain(
    sequence: int, *values: bytes, session: bytes = b"s" * 16, place: PartitionName = PLACE
) -> PlainAppend:
    return PlainAppend(place, session, sequence, tuple(encode_leaf(None, value) for value in values))


def test_a_receipt_is_given_only_when_the_batch_is_durable(log: StorageLog) -> None:
    core = party(log)
    one = batch(0)
    stored = store(core, one)
    assert stored == core_module.StoredBatch(0, one.digest(), again=False)
    with pytest.raises(NotDurableError):
        core.receipt(stored.digest)
    assert fetch_digest(core, stored.digest) == Absent()
    assert fetch_first(core, STREAM, 0) == Absent()
    log.sync()
    receipt = core.receipt(stored.digest)
    assert (receipt.party, receipt.digest) == ("s0", one.digest())
    receipt.verify(CHAIN, STORES[0].public)
    with pytest.raises(SignatureError):
        receipt.verify(CHAIN, STORES[1].public)
    with pytest.raises(StorageRefusedError, match="the batch 0000000000000000 is not kept"):
        core.receipt(bytes(32))


def test_a_batch_comes_back_by_key_and_by_digest_as_it_was(log: StorageLog) -> None:
    core = party(log)
    batches = [batch(3 * number, [b"x%d" % number] * 3) for number in range(5)]
    for one in batches:
        store(core, one)
    log.sync()
    for number, one in enumerate(batches):
        assert fetch_first(core, STREAM, 3 * number) == one.encode()
        assert fetch_digest(core, one.digest()) == one.encode()
    assert fetch_first(core, STREAM, 1) == Absent()
    assert fetch_first(core, replace(STREAM, producer="bob"), 0) == Absent()
    assert core.fetch_range(STREAM, 7, 10**6) == tuple(one.encode() for one in batches[2:])
    assert core.fetch_range(STREAM, 15, 10**6) == ()
    size = len(batches[0].encode())
    assert core.fetch_range(STREAM, 0, 2 * size + 100) == tuple(one.encode() for one in batches[:2])
    assert core.fetch_range(STREAM, 0, 1) == (batches[0].encode(),)


def test_the_same_batch_again_changes_nothing(log: StorageLog) -> None:
    core = party(log)
    first = store(core, batch(0))
    again = store(core, batch(0))
    assert (again.position, again.digest, again.again) == (first.position, first.digest, True)
    assert log.end == 1


def test_a_second_batch_with_one_sequence_is_evidence_and_replaces_nothing(log: StorageLog) -> None:
    core = party(log)
    good, evil, third = batch(0, [b"good"]), batch(0, [b"evil"]), batch(0, [b"third"])
    store(core, good)
    assert store(core, evil).again is False
    with pytest.raises(StorageRefusedError, match="already kept as evidence"):
        store(core, third)
    assert core.evidence("orders") == []  # not durable yet
    log.sync()
    for each in (core, party(log)):
        assert fetch_first(each, STREAM, 0) == good.encode()
        assert fetch_digest(each, evil.digest()) == evil.encode()
        assert each.evidence("orders") == [(good.signed, evil.signed)]
        assert each.evidence("clicks") == []
        each.receipt(evil.digest()).verify(CHAIN, STORES[0].public)
        with pytest.raises(StorageRefusedError, match="already kept as evidence"):
            store(each, third)
    for header in core.evidence("orders")[0]:
        header.verify(ALICE.public)


def test_what_nobody_could_use_is_refused(log: StorageLog) -> None:
    core = party(log)
    good = batch(0)
    forged = replace(good, leaves=(encode_leaf(None, b"other"), good.leaves[1]))
    with pytest.raises(StorageRefusedError, match="do not match the root in the signed header"):
        store(core, forged)
    with pytest.raises(StorageRefusedError, match="signature"):
        store(core, batch(0, key=BOB))
    with pytest.raises(StorageRefusedError, match="of the chain 'other'"):
        store(core, batch(0, chain_id="other"))
    with pytest.raises(StorageRefusedError, match="a batch of 'alice' does not come from 'bob'"):
        core.store(good.encode(), "bob", BOB.public)
    with pytest.raises(StorageRefusedError, match="is not a valid topic name"):
        store(core, batch(0, stream=replace(STREAM, topic="no/topic")))
    with pytest.raises(DecodeError):
        core.store(good.encode()[:-1], "alice", ALICE.public)
    assert log.end == 0
    assert store(core, good).again is False


def test_a_bad_signature_first_does_not_shut_the_good_one_out(log: StorageLog) -> None:
    """The digest does not cover the signature, so that a forger could otherwise take the batch's place."""
    core = party(log)
    good = batch(0)
    forged = replace(good, signed=replace(good.signed, signature=bytes(64)))
    assert forged.digest() == good.digest()
    with pytest.raises(StorageRefusedError):
        store(core, forged)
    assert store(core, good).again is False


def test_everything_is_there_after_a_restart(log: StorageLog) -> None:
    core = party(log)
    batches = [batch(2 * number) for number in (0, 2, 1)]  # they need not come in order
    for one in batches:
        store(core, one)
    core.append_plain(plain(0, b"a", b"b"))
    log.sync()
    core = party(log)
    assert [fetch_first(core, STREAM, sequence) for sequence in (0, 2, 4)] == [
        batches[place].encode() for place in (0, 2, 1)
    ]
    assert store(core, batches[1]).again
    assert core.append_plain(plain(0, b"a", b"b")) == Appended(3, 0)
    assert core.append_plain(plain(1, b"c")) == Appended(4, 2)


def test_what_was_not_synced_may_be_lost_and_can_be_stored_again() -> None:
    log = MemoryLog()
    core = party(log)
    store(core, batch(0))
    log.sync()
    store(core, batch(2))
    log.crash()
    core = party(log)
    assert fetch_first(core, STREAM, 0) == batch(0).encode()
    assert store(core, batch(2)).again is False


def test_absence_is_stated_at_a_height_that_was_decided(log: StorageLog) -> None:
    core = party(log)
    one = batch(0)
    statement = core.absence(one.signed, certificate(7))
    assert not isinstance(statement, Below)
    assert (statement.party, statement.digest, statement.height) == ("s0", one.digest(), 7)
    statement.verify(CHAIN, STORES[0].public)
    with pytest.raises(StorageRefusedError, match="does not prove the height"):
        core.absence(one.signed, certificate(7, voters=2))
    with pytest.raises(StorageRefusedError, match="does not prove the height"):
        core.absence(one.signed, replace(certificate(7), height=8))
    store(core, one)
    with pytest.raises(StorageRefusedError, match="the party has the batch"):
        core.absence(one.signed, certificate(7))


def test_below_retention_is_another_answer_than_absent(log: StorageLog) -> None:
    core = party(log)
    batches = [batch(2 * number) for number in range(5)]
    for one in batches:
        store(core, one)
    for sequence, mark in ((0, 0), (4, 4), (10, 10)):
        if mark:
            core.raise_low_water(STREAM, mark)
        log.sync()
        for each in (core, party(log)):
            if mark:
                assert fetch_first(each, STREAM, 0) == Below(mark)
                assert each.fetch_range(STREAM, 0, 1000) == Below(mark)
                assert fetch_digest(each, batches[0].digest()) == Below(mark)
                with pytest.raises(StorageRefusedError, match="below retention"):
                    store(each, batch(0, [b"late"]))
                assert each.absence(batch(0, [b"late"]).signed, certificate(1)) == Below(mark)
            if sequence < 10:
                assert fetch_first(each, STREAM, sequence) == batches[sequence // 2].encode()
            assert fetch_first(each, STREAM, 10) == Absent()
    with pytest.raises(StorageRefusedError):
        core.raise_low_water(STREAM, 10)
    with pytest.raises(StorageRefusedError):
        core.raise_low_water(STREAM, 11)
    with pytest.raises(StorageRefusedError):
        core.raise_low_water(PLACE, 1)


def test_a_mark_within_a_batch_keeps_the_batch(log: StorageLog) -> None:
    core, one = party(log), batch(0, [b"1", b"2", b"3"])
    store(core, one)
    core.raise_low_water(STREAM, 2)
    log.sync()
    assert fetch_digest(core, one.digest()) == one.encode()
    assert core.fetch_range(STREAM, 2, 1000) == (one.encode(),)
    assert core.fetch_range(STREAM, 1, 1000) == Below(2)


def test_marks_and_offsets_outlive_the_segments(tmp_path: Path) -> None:
    options = LogOptions(segment_bytes_max=HEADER_BYTES + 1000)
    with Log(tmp_path, options) as log:
        core = party(log)
        for number in range(20):
            store(core, batch(2 * number))
            core.append_plain(plain(number, b"x" * 50))
        assert core.retain() == 0  # everything is wanted
        core.raise_low_water(STREAM, 20)
        assert core.retain() == 0  # the plain records are still wanted
        core.raise_low_water(PLACE, 20)
        start = core.retain()
        assert 0 < start <= 20
        assert (
            fetch_first(core, STREAM, 18) == Below(20)
            and fetch_first(core, STREAM, 20) == batch(20).encode()
        )
        core.retain(size_bytes_max=0)
        assert fetch_first(core, STREAM, 20) == Below(40)
        assert fetch_digest(core, batch(20).digest()) == Absent()
        assert core.fetch_plain(PLACE, 0, 1000) == Below(20)
    with Log(tmp_path, options) as log:
        core = party(log)
        assert fetch_first(core, STREAM, 20) == Below(40)
        assert core.absence(batch(20, [b"late"]).signed, certificate(1)) == Below(40)
        assert fetch_first(core, STREAM, 40) == Absent()
        assert core.fetch_plain(PLACE, 19, 1000) == Below(20)
        assert core.append_plain(plain(0, b"new", session=b"t" * 16)).first_offset == 20
        log.sync()
        part = core.fetch_plain(PLACE, 20, 1000)
        assert isinstance(part, PlainSlice) and part.end == 21


def test_nothing_is_written_when_nothing_may_go(log: StorageLog) -> None:
    core = party(log)
    store(core, batch(0))
    core.retain()
    assert log.end == 1


def test_another_party_catches_up_from_the_log(log: StorageLog) -> None:
    core = party(log)
    batches = [batch(2 * number) for number in range(6)]
    for number, one in enumerate(batches):
        store(core, one)
        core.append_plain(plain(number, b"x"))
    assert core.catch_up(0, 10**6) == Batches(0, ())
    log.sync()
    encoded = tuple(one.encode() for one in batches)
    assert core.catch_up(0, 10**6) == Batches(12, encoded)
    assert core.catch_up(12, 10**6) == Batches(12, ())
    part = core.catch_up(0, 2 * len(encoded[0]))
    assert part == Batches(4, encoded[:2])
    assert core.catch_up(4, 10**6) == Batches(12, encoded[2:])
    position, found = 0, []
    while position < log.end:
        step = core.catch_up(position, 1)
        assert isinstance(step, Batches)
        found += step.batches
        position = step.next_position
    assert tuple(found) == encoded


def test_plain_records_have_offsets_in_the_order_of_the_log(log: StorageLog) -> None:
    core = party(log)
    other = PartitionName("clicks", 4)
    appends = [plain(0, b"a", b"b"), plain(1, b"c"), plain(0, b"d", session=b"t" * 16)]
    assert [core.append_plain(append).first_offset for append in appends] == [0, 2, 3]
    assert core.append_plain(plain(0, b"z", place=other)).first_offset == 0
    assert core.fetch_plain(PLACE, 0, 10**6) == PlainSlice(0, ())
    log.sync()
    entries = tuple(map(PlainEntry, (0, 2, 3), appends))
    assert core.fetch_plain(PLACE, 0, 10**6) == PlainSlice(4, entries)
    assert core.fetch_plain(PLACE, 1, 10**6) == PlainSlice(4, entries)
    assert core.fetch_plain(PLACE, 2, 10**6) == PlainSlice(4, entries[1:])
    assert core.fetch_plain(PLACE, 0, 1) == PlainSlice(4, entries[:1])
    assert core.fetch_plain(PLACE, 4, 10**6) == PlainSlice(4, ())
    assert core.fetch_plain(PartitionName("nothing", 0), 0, 10**6) == PlainSlice(0, ())


def test_a_consumer_that_does_not_validate_reads_any_topic_by_offset(log: StorageLog) -> None:
    core = party(log)
    place = PartitionName(STREAM.topic, STREAM.partition)
    one, two, evil = batch(0, [b"1", b"2"]), batch(2, [b"3"]), batch(2, [b"4"])
    store(core, one)
    core.append_plain(plain(0, b"before it was validated", place=place))
    store(core, two)
    store(core, evil)
    log.sync()
    for each in (core, party(log)):
        part = each.fetch_plain(place, 1, 10**6)
        assert isinstance(part, PlainSlice) and part.end == 5
        assert [entry.first_offset for entry in part.entries] == [0, 2, 3, 4]
        assert [entry.append.leaves for entry in part.entries] == [
            one.leaves,
            (encode_leaf(None, b"before it was validated"),),
            two.leaves,
            evil.leaves,
        ]
    core.raise_low_water(place, 3)
    log.sync()
    for each in (core, party(log)):
        assert each.fetch_plain(place, 2, 10**6) == Below(3)
        assert fetch_first(each, STREAM, 0) == one.encode()  # a validated stream has a mark of its own


def test_an_append_sent_again_is_kept_once_and_none_overtakes(
    log: StorageLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_module, "SESSION_APPENDS_KEPT", 3)
    monkeypatch.setattr(core_module, "SESSIONS_MAX", 2)
    core = party(log)
    for sequence in range(5):
        assert core.append_plain(plain(sequence, b"x")).first_offset == sequence
    for sequence in (2, 3, 4):
        assert core.append_plain(plain(sequence, b"x")) == Appended(sequence, sequence)
    for sequence in (1, 6):
        with pytest.raises(StorageRefusedError, match="out of order: 5 is the next"):
            core.append_plain(plain(sequence, b"x"))
    for letter in (b"t", b"u"):
        core.append_plain(plain(0, b"y", session=letter * 16))
    with pytest.raises(StorageRefusedError, match="out of order: 0 is the next"):
        core.append_plain(plain(5, b"x"))
    with pytest.raises(StorageRefusedError, match="is not a valid topic name"):
        core.append_plain(plain(0, b"x", place=PartitionName("a b", 0)))


def test_what_was_lost_to_damage_is_absent_and_counted(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        core = party(log)
        for number in range(3):
            store(core, batch(2 * number))
    path = next(tmp_path.glob("*.segment"))
    data = bytearray(path.read_bytes())
    data[data.index(batch(2).encode()) + 100] ^= 1
    path.write_bytes(data)
    repair(tmp_path)
    with Log(tmp_path) as log:
        core = party(log)
        assert core.lost_count == 1
        assert fetch_first(core, STREAM, 2) == Absent()
        assert fetch_first(core, STREAM, 4) == batch(4).encode()
        assert store(core, batch(2)).again is False


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 30), st.integers(1, 4)),
            st.tuples(st.just("raise"), st.integers(0, 40), st.just(0)),
            st.tuples(st.just("forget"), st.integers(0, 12), st.just(0)),
        ),
        max_size=25,
    )
)
def test_ranges_agree_with_a_plain_table(steps: list[tuple[str, int, int]]) -> None:
    ranges, table, low_water, end = Ranges(), dict[int, tuple[int, int]](), 0, 0
    for position, (what, number, count) in enumerate(steps):
        match what:
            case "add":
                added = ranges.add(number, count, position)
                assert added == (number not in table)
                table.setdefault(number, (count, position))
                end = max(end, number + count) if added else end
            case "raise" if number > low_water:
                ranges.raise_low_water(number)
                low_water = number
                while table and min(table) + table[min(table)][0] <= low_water:
                    del table[min(table)]
            case "forget":
                ranges.forget_before(number)
                gone = [first for first in table if table[first][1] < number]
                if gone:
                    low_water = max(low_water, max(gone) + table[max(gone)][0])
                    table = {first: run for first, run in table.items() if first > max(gone)}
        assert (ranges.low_water, ranges.end) == (low_water, end)
        assert [ranges.position_of(first) for first in range(35)] == [
            table[first][1] if first in table else None for first in range(35)
        ]
        assert ranges.oldest_position == min((run[1] for run in table.values()), default=2**63 - 1)
