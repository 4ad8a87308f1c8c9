"""Messages: which of several events a witness shows, and what is no anomaly although it looks like one."""

from tests.unit.history.oracle.expected import assert_held, assert_violated, judge_one, shown
from veristream.history.properties import Property
from veristream.history.verdicts import Anomaly
from veristream_testing.histories.notation import QUEUE, history


def test_the_first_receipts_at_the_two_lowest_offsets_are_shown() -> None:
    judgement = assert_violated(
        Property.ONCE,
        history("c<a1@7 b<a1@5 c<a1@5 b<a1@2 c<a1@2"),
        "1 message came twice",
        Anomaly("duplicate", stream=0, partition=0, producer=0, number=1),
    )
    assert shown(judgement) == ["b0", "b1"]
    assert judgement.witnesses[0].told == "message 0:1 in `log`/0 was received at offsets 2 and 5"
    judgement = judge_one(Property.ONCE, history("c<a1 b<a1 b<a1 c<a1*1", QUEUE))
    assert shown(judgement) == ["c0", "c1"]


def test_the_first_acknowledgement_before_a_delivery_is_shown() -> None:
    judgement = judge_one(Property.FINAL, history("b+a1 c+a1 b<a1", QUEUE))
    assert shown(judgement) == ["b1", "b2"]
    judgement = judge_one(Property.FINAL, history("c+a1 b+a1 b<a1", QUEUE))
    assert shown(judgement) == ["c1", "b2"]


def test_receives_of_one_call_begin_with_the_first() -> None:
    held = "1 acknowledged message was never delivered again"
    assert_held(Property.FINAL, history("b<a2:9 c+a1 b<a1:9", QUEUE), held)
    assert judge_one(Property.FINAL, history("b<a2:9 c+a1 b<a1:8", QUEUE)).counts
    early = "ao0 a[1 a>1@0 b<a1@0:9 a]1 b<a1@0:9"
    assert judge_one(Property.ABORTED, history(early)).counts == {"precommitted read": 1}


def test_the_first_receipt_and_the_first_failure_are_shown() -> None:
    judgement = judge_one(Property.NOTHING_NEW, history("a>1! a>1! b<a1@0 c<a1@0"))
    assert shown(judgement) == ["a1", "b0"]


def test_bytes_of_any_send_are_right() -> None:
    sends = "a>1@0#5 a>1?#6 a>1@0"
    held = "2 received messages had been sent as they were"
    assert_held(Property.NOTHING_NEW, history(f"{sends} b<a1@0#6 b<a1@0#5"), held)
    judgement = assert_violated(
        Property.NOTHING_NEW,
        history(f"a>1@0 {sends} b<a1@0#7"),
        "1 received message had other bytes",
        Anomaly("altered", stream=0, partition=0, process=1, index=0),
    )
    assert shown(judgement) == ["a2", "b0"]
    # Of a message that nobody sent there is nothing to compare.
    assert judge_one(Property.NOTHING_NEW, history("b<a1@0#7")).counts == {"unexpected": 1}


def test_the_two_lowest_messages_of_an_offset_are_shown() -> None:
    judgement = judge_one(Property.ONE_OFFSET, history("c<a9@0 b<b1@0 b<a3@0 c<a3@0 a>2@0 b<a2@0"))
    assert shown(judgement) == ["b1", "a1"]
    assert judgement.counts == {"inconsistent offset": 1}
    judgement = judge_one(Property.ONE_OFFSET, history("b<b1@0 b<a3@0 c<a3@0"))
    assert shown(judgement) == ["b0", "b1"]


def test_sends_are_ordered_by_number() -> None:
    held = "2 pairs of messages were in order"
    assert_held(Property.ORDER, history("a>2@1 a>1@0 a>3@1"), held)
    # What was not acknowledged, or has no offset, is passed over.
    assert_held(Property.ORDER, history("a>1@0 a>2@9? a>3 a>4@9! a>5@1 a>6@2"), held)
    assert_held(Property.ORDER, history("a>1@5 b>2@4 a>2@4/1 a>3@6 a>4@7"), held)
    judgement = judge_one(Property.ORDER, history("a>1 a>2@3 b<a1@9 bS0 b<a1@7 cS0 c<a1@7"))
    assert judgement.counts == {"nonmonotonic send": 1}
    assert shown(judgement) == ["a3", "b2"]


def test_the_lowest_skipped_message_is_shown() -> None:
    judgement = judge_one(Property.ORDER, history("a>9@3 b>1@1 a>8@1 a>8@1 c<a1@0 c<a2@4"))
    assert judgement.counts == {"skipped poll": 1}
    assert shown(judgement) == ["a3", "c0", "c1"]


def test_sessions() -> None:
    def polls(line: str) -> dict[str, int]:
        return dict(judge_one(Property.ORDER, history(line)).counts)

    back = {"nonmonotonic poll": 1}
    assert polls("b<a2@1 b<a1@0") == back
    for between in ("bS0", "bA0", "bR", "bC", "bo0", "bo0~", "bo0!"):
        assert polls(f"b<a2@1 {between} b<a1@0") == {}
    for elsewhere in ("bS0/1", "bA0/1", "bR/1", "cC", "co0", "cS0", "bE0-0", "b<a1@0/1"):
        assert polls(f"b<a2@1 {elsewhere} b<a1@0") == back


def test_polls_of_queues() -> None:
    def polls(line: str) -> tuple[int, dict[str, int]]:
        judgement = judge_one(Property.ORDER, history(line, QUEUE))
        return judgement.operations, dict(judgement.counts)

    assert polls("b<a2%1 b<a1%1") == (2, {"nonmonotonic poll": 1})
    assert polls("b<a2%1 b<a1%2") == (2, {})
    assert polls("b<a2%2 b<a1%1") == (2, {})
    assert polls("b<a1%2 b<a2 b<a1%1") == (3, {})  # it came before, though as a redelivery
    assert polls("b<a2^0 b<a1^1") == (2, {})
    assert polls("b<a2 b<a1/1") == (2, {})
    assert polls("b<a2 b<b1 c<a1") == (3, {})
    # The highest before is shown, and decides whether both are of one call.
    judgement = judge_one(Property.ORDER, history("b<a4 b<a3:7 b<a2:7", QUEUE))
    assert judgement.counts == {"nonmonotonic poll": 2}
    assert [event.number for event in judgement.witnesses[1].events] == [4, 2]
