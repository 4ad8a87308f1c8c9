"""Sends and receipts of fast clients: their rows join, in any order of their ends."""

from __future__ import annotations

import time
from pathlib import Path

from tests.unit.recording.histories import read_back
from veristream.history.events import NONE, Operation, Outcome
from veristream.recording.rapid import Receives, Sends
from veristream.recording.recording import DRAIN_S, Recording


def test_sends_join_their_ends(tmp_path: Path) -> None:
    with Recording(tmp_path / "h", "test") as recording:
        stream = recording.stream("s")
        journal = recording.journal("p")
        sends = Sends(journal, stream)
        calls = [sends.invoke(number, 100 + number) for number in range(5)]
        sends.ok(calls[3], 1, 7)
        sends.ok(calls[0], 0, 9)
        sends.end(calls[1], Outcome.FAIL, "MSG_SIZE_TOO_LARGE", 2)
        sends.end(calls[2], Outcome.INDEFINITE, "_MSG_TIMED_OUT", NONE)
        journal.note(Operation.CLOSE)
        recording.finish()
    _, events = read_back(tmp_path / "h")
    assert [
        (each.index, each.outcome.name, each.number, each.partition, each.offset) for each in events
    ] == [
        (0, "INVOKE", 0, 0, NONE),
        (1, "INVOKE", 1, 2, NONE),
        (2, "INVOKE", 2, NONE, NONE),
        (3, "INVOKE", 3, 1, NONE),
        (4, "INVOKE", 4, NONE, NONE),
        (5, "OK", 3, 1, 7),
        (6, "OK", 0, 0, 9),
        (7, "FAIL", 1, 2, NONE),
        (8, "INDEFINITE", 2, NONE, NONE),
        (9, "OK", NONE, NONE, NONE),
    ]
    sent = [each for each in events if each.operation is Operation.SEND]
    assert all(each.producer == 0 and each.digest == 100 + each.number for each in sent)
    assert {each.call for each in sent} == {0, 2, 4, 6, 8}
    assert all(each.call == 2 * each.number for each in sent)
    assert [each.error for each in events[7:9]] == ["MSG_SIZE_TOO_LARGE", "_MSG_TIMED_OUT"]


def test_a_send_has_the_transaction_in_which_it_began(tmp_path: Path) -> None:
    with Recording(tmp_path / "h", "test") as recording:
        sends = Sends(recording.journal("p"), recording.stream("s"))
        outside = sends.invoke(0, 1)
        sends.within(4, 2)
        inside = sends.invoke(1, 1)
        sends.within(NONE)
        after = sends.invoke(2, 1)
        for call in (after, inside, outside):
            sends.ok(call, 0, call)
    _, events = read_back(tmp_path / "h")
    found = {(each.number, each.transaction, each.epoch) for each in events}
    assert found == {(0, NONE, NONE), (1, 4, 2), (2, NONE, NONE)}
    assert len(events) == 6


def test_what_ends_later_waits(tmp_path: Path) -> None:
    """A send may end long after the recording's thread has passed."""
    with Recording(tmp_path / "h", "test") as recording:
        journal = recording.journal("p")
        sends = Sends(journal, recording.stream("s"))
        first = sends.invoke(0, 1)
        assert journal.drain() == []
        second = sends.invoke(1, 1)
        sends.ok(second, 0, 0)
        drained = journal.drain()
        assert [list(each["number"]) for each in drained] == [[1], [1]]
        assert recording.acknowledged(0, 0) == 0
        sends.ok(first, 0, 5)
        (begins, ends) = journal.drain()
        assert (list(begins["index"]), list(ends["index"]), list(ends["offset"])) == ([first], [3], [5])
        assert recording.acknowledged(0, 0) == 5
        assert recording.acknowledged(0, 1) == NONE


def test_receipts_keep_their_calls(tmp_path: Path) -> None:
    with Recording(tmp_path / "h", "test") as recording:
        journal = recording.journal("c")
        group = recording.group("g")
        receives = Receives(journal, recording.stream("s"), group)
        receives.add((0, 5), (3, 9), 77)
        call = journal.begin()
        receives.add((0, 6), (3, 10), 78, call)
        receives.add((1, 0), (NONE, NONE), 79, call)
        recording.finish()
    _, events = read_back(tmp_path / "h")
    assert [
        (each.call, each.partition, each.offset, each.producer, each.number, each.digest) for each in events
    ] == [(0, 0, 5, 3, 9, 77), (1, 0, 6, 3, 10, 78), (1, 1, 0, NONE, NONE, 79)]
    assert {(each.operation, each.outcome, each.group) for each in events} == {
        (Operation.RECEIVE, Outcome.OK, group)
    }


def test_many_are_drained_while_they_come(tmp_path: Path) -> None:
    with Recording(tmp_path / "h", "test") as recording:
        sends = Sends(recording.journal("p"), recording.stream("s"))
        number = 0
        while recording.now_ns() < 5 * DRAIN_S * 1e9:
            time.sleep(0.002)
            calls = [sends.invoke(number + each, 1) for each in range(50)]
            for call in reversed(calls):
                sends.ok(call, call % 3, call)
            number += 50
        recording.finish()
    _, events = read_back(tmp_path / "h")
    assert len(events) == 2 * number
    assert [each.number for each in events if each.outcome is Outcome.INVOKE] == list(range(number))
    assert {each.number for each in events if each.outcome is Outcome.OK} == set(range(number))
