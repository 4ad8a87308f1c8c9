"""Cycles of transactions: which edges there are, and which cycle a witness shows."""

from tests.unit.history.oracle.expected import assert_violated, judge_one, shown
from veristream.history.properties import Property
from veristream.history.verdicts import Anomaly
from veristream_testing.histories.notation import history

ONE_CYCLE = "1 cycle of transactions that read of each other"


def test_a_cycle_takes_the_shortest_way_back() -> None:
    # c reads of a, and b lies between them by offsets in partition 0, but not in partition 1.
    line = "a[1 b[1 c[1 c>1@0 b>1@1 a>1@2 c>2@0/1 a>2@1/1 a>3@0/2 c<a3@0/2 a]1 b]1 c]1"
    judgement = assert_violated(
        Property.WHOLE,
        history(line),
        ONE_CYCLE,
        Anomaly("G1c", process=0, transaction=1),
    )
    assert shown(judgement) == ["c5", "a5", "c6", "a9", "c8"]


def test_what_leads_to_a_cycle_is_not_in_it() -> None:
    # a is before both by offsets and by a receipt; c is before b by offsets, too, but b read of it.
    line = (
        "a[1 a>1@0 a]1 b[1 c[1 b>1@1 c>1@2 c>2@0/1 b>3@3 c>3@4 "
        "c<a1@0 b<c2@0/1 b<c2@0/1 b]1 c]1 d[1 d<c1@2 d>1@5 d]1"
    )
    found = assert_violated(
        Property.WHOLE, history(line), ONE_CYCLE, Anomaly("G1c", process=1, transaction=1)
    )
    assert shown(found) == ["b3", "c3", "b6", "b9", "c10"]


def test_edges() -> None:
    def found(line: str) -> bool:
        return bool(judge_one(Property.WHOLE, history(line)).counts)

    assert found("a[1 b[1 a>1@0 b>1@1 b>2@0/1 a<b2@0/1 a]1 b]1")
    # Between the beginning and the OK of the end.
    assert found("a[1 b[1 a>1@0 b>1@1 b>2@0/1 a]1~ a<b2@0/1 a]1$ b]1")
    assert not found("a[1 b[1 a>1@0 b>1@1 b>2@0/1 a]1 a<b2@0/1 b]1")
    assert not found("b[1 b>1@1 b>2@0/1 a<b2@0/1 a[1 a>1@0 a]1 b]1")
    # Only what is committed.
    assert not found("a[1 b[1 a>1@0 b>1@1 b>2@0/1 a<b2@0/1 ax1 b]1")
    assert not found("a[1 b[1 a>1@0 b>1@1 b>2@0/1 a<b2@0/1 a]1 bx1")
    assert not found("a[1 b[1 a>1@0 b>1@1 b>2@0/1 a<b2@0/1 a]1? b]1")
    # Only neighbours, and only in one partition.
    assert not found("a[1 b[1 a>1@0 b>1@0/1 b>2@0/2 a<b2@0/2 a]1 b]1")
    assert not found("a[1 b[1 a>1@0 b>1@1/1 b>2@0/2 a<b2@0/2 a]1 b]1")
    # Offsets that the senders did not learn.
    assert found("a[1 b[1 a>1 b>1 b>2/1 a<b2@0/1 a]1 b]1 d<a1@4 d<b1@5")
    assert not found("a[1 b[1 a>1 b>1 b>2/1 a<b2@0/1 a]1 b]1 d<a1@5 d<b1@4")


def test_one_message_in_two_transactions_is_of_the_first_with_an_offset() -> None:
    # b's message is of transaction 2, at offset 1, after a's; transaction 1 learnt no offset.
    line = "b[1 b>1 b]1 a[1 a>1@0 b[2 b>1@1 b>2@0/1 a<b2@0/1 a]1 b]2"
    assert_violated(Property.WHOLE, history(line), ONE_CYCLE, Anomaly("G1c", process=0, transaction=1))


def test_one_offset_of_two_messages_is_of_the_lower_one() -> None:
    # c's message is at b's offset, and does not count there.
    line = "a[1 b[1 c[1 a>1@0 b>1@1 c>1@1 c>2@0/1 a<c2@0/1 a]1 b]1 c]1"
    assert not judge_one(Property.WHOLE, history(line)).counts
    assert judge_one(Property.WHOLE, history(line.replace("b>1@1", "b>1@2"))).counts
