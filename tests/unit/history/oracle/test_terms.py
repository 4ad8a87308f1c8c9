"""Indefinite sends, transactions, effective offsets and messages of unknown producers."""

from tests.unit.history.oracle.expected import (
    assert_held,
    assert_not_observable,
    assert_violated,
    judge_one,
    shown,
)
from veristream.history.properties import Property
from veristream.history.verdicts import Anomaly
from veristream_testing.histories.notation import QUEUE, history

LOST = Anomaly("lost write", stream=0, partition=0, producer=0, number=1)


def unexpected(number: int) -> Anomaly:
    """Message a:number."""
    return Anomaly("unexpected", stream=0, partition=0, producer=0, number=number)


def test_indefinite_sends_may_be_received_or_not() -> None:
    sends = "a>1? a>2~ a>3@0"
    both = history(f"{sends} b<a3@0 b<a1@1 b<a2@2 bE0-3")
    neither = history(f"{sends} b<a3@0 bE0-3")
    for each in (both, neither):
        assert_held(Property.DELIVERED, each, "1 acknowledged message was received")
    held = "3 received messages had been sent as they were"
    assert_held(Property.NOTHING_NEW, both, held)
    # A failed send and an indefinite one of one message: it may have been sent.
    again = history("a>1! a>1? b<a1@0")
    assert_held(Property.NOTHING_NEW, again, "1 received message had been sent as it was")


def test_indefinite_transactions_are_neither_committed_nor_aborted() -> None:
    for end in ("a]1?", "a]1~", "ax1?", "ax1~", "a]1 ax1", "a]1? ax1!", ""):
        of = history(f"ao0 a[1 a>1@0 a>2@1 {end} cE0-2 c<a1@0")
        told = "no message was acknowledged, so that none could be lost"
        assert_not_observable(Property.DELIVERED, of, told)
        told = "no reader read two messages of a committed transaction to the end"
        assert_not_observable(Property.WHOLE, of, told)
    held = "2 messages of transactions were never read too early or in vain"
    for end in ("a]1?", "a]1~", "a]1 ax1"):
        assert_held(Property.ABORTED, history(f"ao0 a[1 a>1@0 a>2@1 {end} c<a1@0"), held)


def test_acknowledgements_of_attempts_that_may_not_have_happened_count() -> None:
    of = history("a>1@0 b<a1@0^0 b+a1@0^0? b=1")
    assert_held(Property.PROCESSED, of, "1 group processed all that it committed")
    of = history("a>1@0 b<a1@0^0 b+a1@0^0! b=1")
    # The INVOKE counts already, so that only an acknowledgement without one can have failed.
    assert_held(Property.PROCESSED, of, "1 group processed all that it committed")


def test_aborted_messages_are_not_lost() -> None:
    of = history("ao0 a[1 a>1@0 ax1 a[2 a>2@1 a]2 b<a2@1 bE0-2")
    assert_held(Property.DELIVERED, of, "1 acknowledged message was received")
    assert_held(Property.ABORTED, of, "2 messages of transactions were never read too early or in vain")


def test_a_message_that_was_aborted_and_sent_again_is_where_it_is_effective() -> None:
    sends = "ao0 a>0@0 a[1 a>1@1 a>2@0/1 ax1 a[2 a>1@5 a>2@5/1 a]2 a>3@6"
    # A reader of committed records passes the aborted copy: nothing is lost, skipped, torn or unprocessed.
    passed = history(f"{sends} bA0 b<a0@0^0 bE0-4 b<a2@5/1^0 bE0-6/1 b+a0@0^0 b=4 c<a0@0 c<a1@5 c<a3@6")
    assert_held(Property.DELIVERED, passed, "4 acknowledged messages were received")
    assert_held(Property.ORDER, passed, "4 pairs of messages were in order")
    assert_held(Property.PROCESSED, passed, "1 group processed all that it committed")
    told = "no reader read two messages of a committed transaction to the end"
    assert_not_observable(Property.WHOLE, passed, told)
    unread = history(f"{sends} b<a0@0 bE0-4 b<a3@6 b<a2@5/1")
    told = "1 of 4 acknowledged messages were neither received nor read to the end"
    assert_not_observable(Property.DELIVERED, unread, told)
    lost = history(f"{sends} b<a0@0 bE0-6 b<a3@6 b<a2@5/1")
    assert_violated(Property.DELIVERED, lost, "1 acknowledged message was lost", LOST)
    skipped = Anomaly("skipped poll", stream=0, partition=0, process=1, index=3)
    assert_violated(Property.ORDER, lost, "1 receive skipped a message", skipped)


def test_reads_of_messages_with_several_sends() -> None:
    # Sent once outside of a transaction: it is not known which send was read.
    of = history("ao0 a[1 a>1@0 ax1 a>1? b<a1@0")
    assert_held(Property.ABORTED, of, "1 message of a transaction was never read too early or in vain")
    # Each of two transactions may have committed it.
    of = history("ao0 a[1 a>1 a]1 a[2 a>1 b<a1@0 a]2")
    assert_held(Property.ABORTED, of, "1 message of a transaction was never read too early or in vain")
    of = history("ao0 a[1 a>1 ax1 a[2 a>1 b<a1@0 a]2")
    early = Anomaly("precommitted read", stream=0, partition=0, process=1, index=0)
    told = "1 receive of a message before its transaction was committed"
    assert_violated(Property.ABORTED, of, told, early)


def test_a_read_before_an_abort_is_aborted() -> None:
    of = history("ao0 a[1 a>1@0 b<a1@0 ax1")
    read = Anomaly("aborted read", stream=0, partition=0, process=1, index=0)
    judgement = assert_violated(Property.ABORTED, of, "1 receive of an aborted message", read)
    assert shown(judgement) == ["a4", "b0", "a7"]


def test_unknown_producers_are_messages_of_their_own() -> None:
    of = history("b<?@0 b<?@1 b<?@2")
    each = [Anomaly("unexpected", stream=0, partition=0, process=1, index=index) for index in range(3)]
    assert_violated(Property.NOTHING_NEW, of, "3 received messages were never sent", *each)
    of = history("a>1@0 b<a1@0 b<?@0 b<?@0")
    assert_held(Property.ONCE, of, "1 received message came once")
    assert_held(Property.ONE_OFFSET, of, "1 offset had one message")
    polls = [
        Anomaly("nonmonotonic poll", stream=0, partition=0, process=1, index=index) for index in (1, 2)
    ]
    assert_violated(Property.ORDER, of, "2 receives were out of order", *polls)
    of = history("b+a1 b+? b<? b<?", QUEUE)
    assert_held(Property.FINAL, of, "1 acknowledged message was never delivered again")


def test_one_failed_send_shows_why_a_message_is_unexpected() -> None:
    judgement = assert_violated(
        Property.NOTHING_NEW,
        history("a>1! b<a1@0 b<a2@1"),
        "2 received messages were never sent",
        unexpected(1),
        unexpected(2),
    )
    assert shown(judgement) == ["a1", "b0"]
    assert [witness.told for witness in judgement.witnesses] == [
        "message 0:1 was received from `log`/0, and its send failed",
        "message 0:2 was received from `log`/0, and nobody sent it",
    ]
    told = "1 received message was never sent"
    elsewhere = Anomaly("unexpected", stream=0, partition=1, producer=0, number=1)
    assert_violated(Property.NOTHING_NEW, history("a>1@0 b<a1@0/1"), told, elsewhere)


def test_cycles_of_writes_alone_are_noted() -> None:
    of = history(
        "a[1 b[1 a>1@0 b>1@1 b>2@0/1 a>2@1/1 a]1 b]1 cE0-2 cE0-2/1 c<a1@0 c<b1@1 c<b2@0/1 c<a2@1/1"
    )
    assert_held(Property.WHOLE, of, "2 readings of transactions were whole")
    assert judge_one(Property.WHOLE, of).notes == {"G0": 1}


def test_the_same_message_in_two_partitions_is_two_messages() -> None:
    of = history("a>1@0 a>1@0/1 b<a1@0 b<a1@0/1")
    assert_held(Property.ONCE, of, "2 received messages came once each")


def test_the_first_events_of_a_lost_write_are_shown() -> None:
    judgement = assert_violated(
        Property.DELIVERED,
        history("a[1 a>1@1 a>1@1 a]1 a]1 bE0-1 bE1-2 bE0-2"),
        "1 acknowledged message was lost",
        LOST,
    )
    assert shown(judgement) == ["a3", "a7", "b3"]


def test_the_first_events_of_a_torn_transaction_are_shown() -> None:
    line = "a[1 a>1@1 a>1@9 a>2@0/1 a>2@8/1 a]1 a]1 b<a1@1 b<a1@9 bE1-2 bE0-1/1 bE8-9/1"
    judgement = assert_violated(
        Property.WHOLE,
        history(line),
        "1 committed transaction was read in part",
        Anomaly("torn transaction", process=1, producer=0, transaction=1),
    )
    assert shown(judgement) == ["a3", "a7", "a11", "b0", "b5"]


def test_a_reading_that_failed_is_none() -> None:
    told = "no message was sent in a transaction to a partition that somebody read"
    assert_not_observable(Property.ABORTED, history("ao0 a[1 a>1@0 a]1 bE0-1!"), told)


def test_clocks_of_all_senders_are_needed() -> None:
    # c's clock jumped, and c, too, sent the message.
    sends = "ao0 a[1 a>1@0 c[1 c>1 cE*1"
    of = history(f"{sends.replace('c>1', 'c>a1')} b<a1@0 a]1 c]1")
    assert_not_observable(Property.ABORTED, of, "clocks of different processes had to be compared")
