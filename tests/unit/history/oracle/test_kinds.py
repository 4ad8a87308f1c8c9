"""For each kind of anomaly a history that is valid, and one that differs from it and has the anomaly."""

from dataclasses import dataclass

import pytest

from tests.unit.history.oracle.expected import assert_held, assert_violated, shown
from veristream.history.manifest import Stream
from veristream.history.properties import Property
from veristream.history.verdicts import Anomaly
from veristream.history.witnesses import KINDS
from veristream_testing.histories.notation import LOG, QUEUE, history


@dataclass(frozen=True)
class Case:
    """Two lines, what is said of each, and the anomaly of the second one with the events that show it."""

    asked: Property
    valid: str
    held: str
    wrong: str
    violated: str
    anomaly: Anomaly
    events: str
    stream: Stream = LOG


CASES = [
    Case(
        Property.DELIVERED,
        "a>1@0 a>2@1 b<a1@0 b<a2@1 bE0-2",
        "2 acknowledged messages were received",
        "a>1@0 a>2@1 b<a1@0 bE0-2",
        "1 acknowledged message was lost",
        Anomaly("lost write", stream=0, partition=0, producer=0, number=2),
        "a3 b2",
    ),
    Case(
        Property.DELIVERED,
        "a>1 b<a1^0 bE^0 c<a1^1 cE^1",
        "2 acknowledged messages were received",
        "a>1 b<a1^0 bE^0 cE^1",
        "1 acknowledged message was lost",
        Anomaly("lost write", stream=0, partition=0, group=1, producer=0, number=1),
        "a1 c1",
        QUEUE,
    ),
    Case(
        Property.PROCESSED,
        "a>1@0 a>2@1 bA0 b<a1@0^0 b<a2@1^0 b+a1@0^0 b=1",
        "1 group processed all that it committed",
        "a>1@0 a>2@1 bA0 b<a1@0^0 b<a2@1^0 b+a1@0^0 b=2",
        "1 message was never processed, although a commit is past it",
        Anomaly("unprocessed", stream=0, partition=0, group=0, producer=0, number=2),
        "a3 b6",
    ),
    Case(
        Property.ONCE,
        "a>1@0 a>2@1 b<a1@0 b<a2@1 c<a1@0",
        "2 received messages came once each",
        "a>1@0 a>2@1 b<a1@0 b<a2@1 c<a1@3",
        "1 message came twice",
        Anomaly("duplicate", stream=0, partition=0, producer=0, number=1),
        "b0 c0",
    ),
    Case(
        Property.ONCE,
        "a>1 b<a1^0 c<a1^1",
        "2 received messages came once each",
        "a>1 b<a1^0 c<a1^0",
        "1 message came twice",
        Anomaly("duplicate", stream=0, partition=0, group=0, producer=0, number=1),
        "b0 c0",
        QUEUE,
    ),
    Case(
        Property.ORDER,
        "a>1@0 a>2@1",
        "1 pair of messages was in order",
        "a>1@1 a>2@0",
        "1 send was stored before an earlier one",
        Anomaly("nonmonotonic send", stream=0, partition=0, producer=0, number=2),
        "a1 a3",
    ),
    Case(
        Property.ORDER,
        "a>1@0:7 a>2@1:7",
        "1 pair of messages was in order",
        "a>1@1:7 a>2@0:7",
        "1 send was stored before an earlier one of the same call",
        Anomaly("int-nonmonotonic send", stream=0, partition=0, producer=0, number=2),
        "a1 a3",
    ),
    Case(
        Property.ORDER,
        "b<a1@0 b<a2@1 bS0 b<a1@0",
        "1 pair of messages was in order",
        "b<a1@0 b<a2@1 b<a1@0",
        "1 receive was out of order",
        Anomaly("nonmonotonic poll", stream=0, partition=0, process=1, index=2),
        "b1 b2",
    ),
    Case(
        Property.ORDER,
        "b<a1@0:3 b<a2@1:3",
        "1 pair of messages was in order",
        "b<a1@1:3 b<a2@1:3",
        "1 receive was out of order within one call",
        Anomaly("int-nonmonotonic poll", stream=0, partition=0, process=1, index=1),
        "b0 b1",
    ),
    Case(
        Property.ORDER,
        "b<a1 b<a3 b<a2%2",
        "1 pair of messages was in order",
        "b<a1 b<a3 b<a2",
        "1 receive was out of order",
        Anomaly("nonmonotonic poll", stream=0, partition=0, process=1, index=2),
        "b1 b2",
        QUEUE,
    ),
    Case(
        Property.ORDER,
        "b<a1 b<a2:4 b<c1:4 b<a2:4",
        "1 pair of messages was in order",
        "b<a1 b<a3:4 b<a2:4 bC",
        "1 receive was out of order within one call",
        Anomaly("int-nonmonotonic poll", stream=0, partition=0, process=1, index=2),
        "b1 b2",
        QUEUE,
    ),
    Case(
        Property.ORDER,
        "a>1@1? b<a1@0 b<a2@2",
        "1 pair of messages was in order",
        "a>1@1 b<a1@0 b<a2@2",
        "1 receive skipped a message",
        Anomaly("skipped poll", stream=0, partition=0, process=1, index=1),
        "a1 b0 b1",
    ),
    Case(
        Property.ORDER,
        "a>1@1! b<a1@0:0 b<a2@2:0",
        "1 pair of messages was in order",
        "a>1@1 b<a1@0:0 b<a2@2:0",
        "1 receive skipped a message within one call",
        Anomaly("int-skipped poll", stream=0, partition=0, process=1, index=1),
        "a1 b0 b1",
    ),
    Case(
        Property.ONE_OFFSET,
        "a>1@0 b<a1@0 b<a2@0/1",
        "2 offsets had one message each",
        "a>1@0 b<a1@0 b<a2@0",
        "1 offset had two messages",
        Anomaly("inconsistent offset", stream=0, partition=0, offset=0),
        "a1 b1",
    ),
    Case(
        Property.NOTHING_NEW,
        "a>1? a>2~ b<a1@0 b<a2@1",
        "2 received messages had been sent as they were",
        "a>1? a>2! b<a1@0 b<a2@1",
        "1 received message was never sent",
        Anomaly("unexpected", stream=0, partition=0, producer=0, number=2),
        "a3 b1",
    ),
    Case(
        Property.NOTHING_NEW,
        "a>1@0#5 b<a1@0#5 c<a1@0",
        "2 received messages had been sent as they were",
        "a>1@0#5 b<a1@0#6 c<a1@0",
        "1 received message had other bytes",
        Anomaly("altered", stream=0, partition=0, process=1, index=0),
        "a0 b0",
    ),
    Case(
        Property.READERS,
        "b<a1@0 b<a2@1",
        "2 messages were received by permitted readers",
        "b<a1@0 c<a1@0 c<a2@1",
        "1 process read what it must not read",
        Anomaly("leaked", stream=0, process=2),
        "c0",
        Stream("log", readers=(0, 1)),
    ),
    Case(
        Property.ABORTED,
        "ao0 a[1 a>1@0 ax1 a[2 a>2@1 a]2 b<a2@1 bE0-3",
        "2 messages of transactions were never read too early or in vain",
        "ao0 a[1 a>1@0 ax1 a[2 a>2@1 a]2 b<a1@0 b<a2@1 bE0-3",
        "1 receive of an aborted message",
        Anomaly("aborted read", stream=0, partition=0, process=1, index=0),
        "a4 a7 b0",
    ),
    Case(
        Property.ABORTED,
        "ao0 a[1 a>1@0 a]1~ b<a1@0 a]1$",
        "1 message of a transaction was never read too early or in vain",
        "ao0 a[1 a>1@0 b<a1@0 a]1",
        "1 receive of a message before its transaction was committed",
        Anomaly("precommitted read", stream=0, partition=0, process=1, index=0),
        "a4 b0 a6",
    ),
    Case(
        Property.WHOLE,
        "ao0 a[1 a>1@0 a>2@0/1 a]1 b<a1@0 b<a2@0/1 bE0-1 bE0-1/1",
        "1 reading of a transaction was whole",
        "ao0 a[1 a>1@0 a>2@0/1 a]1 b<a1@0 bE0-1 bE0-1/1",
        "1 committed transaction was read in part",
        Anomaly("torn transaction", process=1, producer=0, transaction=1),
        "a5 a7 a9 b0 b4",
    ),
    Case(
        Property.WHOLE,
        "a[1 b[1 a>1@0 a>2@1 b>1@0/1 b<a1@0 a]1 b]1 cE0-2 c<a1@0 c<a2@1",
        "1 reading of a transaction was whole",
        "a[1 b[1 a>1@0 a>2@1 b>1@0/1 b<a1@0 a<b1@0/1 a]1 b]1",
        "1 cycle of transactions that read of each other",
        Anomaly("G1c", process=0, transaction=1),
        "b4 a6 a8 b6",
    ),
    Case(
        Property.FENCED,
        "ao1 a[1 a]1~ bo2 a]1$ b[1 b]1",
        "1 transactional id had two processes, and none committed once it was fenced",
        "ao1 a[1 bo2 a]1 b[1 b]1",
        "1 commit of a fenced producer",
        Anomaly("zombie commit", group=0, process=0, index=5),
        "b1 a4 a5",
    ),
    Case(
        Property.HANGING,
        "ao0 a[1 a>1@0 ax1 b>1@2 cE0-3 cE3-3",
        "1 read to the end was not held up by a transaction",
        "ao0 a[1 a>1@0 ax1 b>1@2 cE0-0 cE3-3",
        "1 read to the end stopped before messages that were there, though no transaction was under way",
        Anomaly("hanging transaction", stream=0, partition=0, process=2, index=1),
        "a5 c1 c3",
    ),
    Case(
        Property.EXCLUSIVE,
        "aA0 bA0/1 aR bA0",
        "1 group never assigned a partition to two members at a time",
        "aA0 bA0/1 bA0 aR",
        "1 assignment of a partition that another member held",
        Anomaly("overlapping assignment", stream=0, partition=0, group=0, process=1, index=1),
        "a0 b1",
    ),
    Case(
        Property.FORWARD,
        "a=2 a=3 bA3",
        "2 commits and assignments were not below earlier ones",
        "a=2 a=3 bA2",
        "1 assignment below an earlier commit",
        Anomaly("lost commit", stream=0, partition=0, group=0, process=1, index=0),
        "a3 b0",
    ),
    Case(
        Property.FORWARD,
        "a=3~ b=2~ a=3$ b=2$ b=4",
        "1 commit or assignment was not below an earlier commit",
        "a=3 b=2 b=4",
        "1 commit below an earlier one",
        Anomaly("backward commit", stream=0, partition=0, group=0, process=1, index=1),
        "a1 b1",
    ),
    Case(
        Property.BOUNDED,
        "br2 b<a1 b<a2 b+a1~ b<a3",
        "3 deliveries were within their limits",
        "br2 b<a1 b<a2 b<a3 b+a1",
        "1 delivery above the limit in flight",
        Anomaly("overrun", stream=0, process=1, index=3),
        "b0 b1 b2 b3",
        QUEUE,
    ),
    Case(
        Property.BOUNDED,
        "b<a1%1 b<a1%2",
        "2 deliveries were within their limits",
        "b<a1%1 b<a1%3",
        "1 delivery above the maximum of attempts",
        Anomaly("too many attempts", stream=0, process=1, index=1),
        "b1",
        Stream("queue", offsets=False, attempts_max=2),
    ),
    Case(
        Property.FINAL,
        "b<a1 b+a1~ c<a1 b+a1$ c<a1^1",
        "1 acknowledged message was never delivered again",
        "b<a1 b+a1 c<a1",
        "1 delivery of a message that was acknowledged",
        Anomaly("zombie delivery", stream=0, partition=0, process=2, index=0),
        "b2 c0",
        QUEUE,
    ),
]


def test_every_kind_has_a_case() -> None:
    assert {case.anomaly.kind for case in CASES} == set(KINDS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.anomaly.kind}, {case.stream.name}")
def test_kind(case: Case) -> None:
    assert_held(case.asked, history(case.valid, case.stream), case.held)
    judgement = assert_violated(case.asked, history(case.wrong, case.stream), case.violated, case.anomaly)
    assert shown(judgement) == case.events.split()
