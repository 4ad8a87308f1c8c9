"""What a recording cannot decide is not observable, with the reason; never held."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.history.oracle.expected import assert_held, assert_not_observable, assert_violated
from veristream.history.manifest import Stream
from veristream.history.properties import Property
from veristream.history.reasons import NOTHING
from veristream.history.verdicts import Anomaly
from veristream_testing.histories.history import History
from veristream_testing.histories.notation import LOG, QUEUE, history

TIMED = Stream("queue", offsets=False, redelivery_ns=35)

NOT_ASKED = {
    Property.DELIVERED: "a>1? a>2! b<a1@0 bE0-2 ao0 a[1 a>3@2 a]1?",
    Property.PROCESSED: "a>1@0 b<a1@0^0 b+a1@0^0 b=1!",
    Property.ONCE: "a>1@0 b<a2@1 b<?@2",
    Property.ORDER: "a>1@0 b>1@1 b<a1@0 b<a1@0/1 bS1 b<b1@1",
    Property.ONE_OFFSET: "a>1 b<?@0",
    Property.NOTHING_NEW: "a>1@0 bE0-1",
    Property.READERS: "a>1@0",
    Property.ABORTED: "ao0 a[1 a>1@0 a]1 a>2@1 b<a2@0/1 bE0-1/2",
    Property.WHOLE: "ao0 a[1 a>1@0 a>2@1 a]1 a[2 a>3@2 a>4@3 ax2 bE0-1 b<a1@0 cE0-4!",
    Property.FENCED: "ao1 ao2 bo3! b[1 b]1",
    Property.EXCLUSIVE: "aA0 aR bA0^1",
    Property.FORWARD: "a=2 bA~ bA bA0^1 bA0/1",
    Property.BOUNDED: "b<a1 br2",
    Property.FINAL: "b<a1 b+a1! b+a1? b+a1~ b<a1",
}


@pytest.mark.parametrize("asked", NOT_ASKED)
def test_nothing_to_decide(asked: Property) -> None:
    stream = {
        Property.BOUNDED: QUEUE,
        Property.FINAL: QUEUE,
        Property.READERS: Stream("log", readers=(0,)),
    }.get(asked, LOG)
    assert_not_observable(asked, history(NOT_ASKED[asked], stream), NOTHING[asked])


@pytest.mark.parametrize("asked", Property)
def test_an_empty_history_shows_nothing(asked: Property) -> None:
    assert_not_observable(asked, history("aC"), "")


def test_messages_that_were_not_read_to_the_end() -> None:
    asked, told = Property.DELIVERED, "acknowledged messages were neither received nor read to the end"
    assert_not_observable(asked, history("a>1@0 a>2@1 b<a1@0 bE0-1"), f"1 of 2 {told}")
    assert_not_observable(asked, history("a>1@0 bE1-9 bE0-9/1 bE0-9! bE0-9~"), f"1 of 1 {told}")
    assert_not_observable(asked, history("a>1 b<a1^0 c<a2^1", QUEUE), f"1 of 2 {told}")
    assert_not_observable(asked, history("a>1", QUEUE), f"1 of 1 {told}")
    # A drain shows nothing of a message that may have come after it.
    assert_not_observable(asked, history("a>1~ bE a>1$", QUEUE), f"1 of 1 {told}")
    assert_not_observable(asked, history("a>1 a>1~ bE", QUEUE), f"1 of 1 {told}")


def test_messages_whose_offset_is_not_known() -> None:
    asked, told = Property.DELIVERED, "1 of 1 acknowledged messages were neither received nor read"
    lost = Anomaly("lost write", stream=0, partition=0, producer=0, number=1)
    assert_violated(asked, history("a>1 bE0-0"), "1 acknowledged message was lost", lost)
    assert_not_observable(asked, history("a>1 bE1-9"), told)
    assert_not_observable(asked, history("bE0-9 a>1"), told)
    assert_not_observable(asked, history("a>1 a>1~ bE0-9"), told)
    assert_held(asked, history("a>1 b<a1@4"), "1 acknowledged message was received")


def test_messages_whose_partition_is_not_known() -> None:
    asked = Property.DELIVERED
    told = "1 of 1 acknowledged messages were neither received nor read to the end"
    assert_not_observable(asked, history("a>1/-1 bE0-9"), told)
    assert_held(asked, history("a>1/-1 b<a1@3/2 bE0-9"), "1 acknowledged message was received")
    assert_held(asked, history("a>1/-1 b<a1/2^0 c<a1/1^0", QUEUE), "2 acknowledged messages were received")
    held = "1 received message had been sent as it was"
    assert_held(Property.NOTHING_NEW, history("a>1/-1? b<a1@3/2"), held)


def test_groups_without_acknowledgements() -> None:
    asked, told = Property.PROCESSED, "groups that committed have no acknowledgement"
    assert_not_observable(asked, history("a>1@0 bA0 b<a1@0^0 b=1"), f"1 of 1 {told}")
    assert_not_observable(asked, history("a>1@0 b<?@0^0 b+a9@5^0 b=1"), f"1 of 1 {told}")
    with_other = "a>1@0 b+a1@0^0 b=1 c=1^1"
    assert_not_observable(asked, history(with_other), f"1 of 2 {told}")
    wrong = "a>1@0 a>2@1 b+a1@0^0 b=2 c=1^1"
    unprocessed = Anomaly("unprocessed", stream=0, partition=0, group=0, producer=0, number=2)
    assert_violated(
        asked, history(wrong), "1 message was never processed, although a commit is past it", unprocessed
    )


def test_what_the_manifest_does_not_promise() -> None:
    nobody = "a>1@0 b<a2@1 b<?@2"
    told = "not every producer was recorded"
    assert_not_observable(Property.NOTHING_NEW, history(nobody, producers_complete=False), told)
    altered = "a>1@0#5 b<a2@1 b<a1@0#6"
    assert_violated(
        Property.NOTHING_NEW,
        history(altered, producers_complete=False),
        "1 received message had other bytes",
        Anomaly("altered", stream=0, partition=0, process=1, index=1),
    )
    assert_not_observable(Property.READERS, history("b<a1@0"), "give the streams `readers`")
    for asked, line in (
        (Property.ABORTED, "ao0 a[1 a>1@0 b<a1@0 ax1 bE0-1"),
        (Property.WHOLE, "ao0 a[1 a>1@0 a>2@1 a]1 b<a1@0 bE0-2"),
    ):
        told = "the recording does not say how transactions ended"
        assert_not_observable(asked, history(line, transactions_recorded=False), told)


INCOMPLETE = {
    Property.DELIVERED: "a>1@0 bE0-1",
    Property.PROCESSED: "a>1@0 b+a9@9^0 b=1",
    Property.ORDER: "b<a1@3 b<a2@1 c<a1@0 a>5@1 c<a2@4",
    Property.NOTHING_NEW: "b<a1@0 b<?@1",
    Property.ABORTED: "ao0 a[1 a>1@0 b<a1@0",
    Property.WHOLE: "ao0 a[1 a>1@0 a>2@1 a]1 b<a1@0 bE0-2",
    Property.FENCED: "ao1 a[1 bo2 a]1",
    Property.EXCLUSIVE: "aA0 bA0",
    Property.FORWARD: "a=3 a=2",
}


@pytest.mark.parametrize("asked", INCOMPLETE)
def test_what_is_missing_in_an_incomplete_recording_is_no_anomaly(asked: Property) -> None:
    whole = history(INCOMPLETE[asked])
    part = History(replace(whole.manifest, complete=False), whole.events)
    assert_not_observable(asked, part, "the recording did not come to its end")


def test_what_is_there_is_an_anomaly_in_an_incomplete_recording_too() -> None:
    part: dict[str, Any] = {"complete": False}
    assert_held(Property.ONCE, history("a>1@0 b<a1@0", **part), "1 received message came once")
    assert_held(Property.ONE_OFFSET, history("a>1@0", **part), "1 offset had one message")
    held = "1 acknowledged message was never delivered again"
    assert_held(Property.FINAL, history("b<a1 b+a1", QUEUE, **part), held)
    assert_violated(
        Property.ORDER,
        history("a>1@1 a>2@0 b<a1@1 b<a2@0", **part),
        "1 send was stored before an earlier one",
        Anomaly("nonmonotonic send", stream=0, partition=0, producer=0, number=2),
    )
    assert_violated(
        Property.FORWARD,
        history("a=3 a=2 bA1", **part),
        "1 assignment below an earlier commit",
        Anomaly("lost commit", stream=0, partition=0, group=0, process=1, index=0),
    )
    limited = Stream("queue", offsets=False, attempts_max=1)
    assert_violated(
        Property.BOUNDED,
        history("br0 b<a1%2", limited, **part),
        "1 delivery above the maximum of attempts",
        Anomaly("too many attempts", stream=0, process=1, index=1),
    )


def elsewhere(of: History, *hosts: str) -> History:
    """Gives the processes other hosts."""
    processes = tuple(
        replace(process, host=host) for process, host in zip(of.manifest.processes, hosts, strict=True)
    )
    return History(replace(of.manifest, processes=processes), of.events)


CLOCKS = {
    Property.ABORTED: ("ao0 a[1 a>1@0 b<a1@0 a]1", LOG),
    Property.FENCED: ("ao1 a[1 bo2 a]1", LOG),
    Property.EXCLUSIVE: ("aA0 bA0", LOG),
    Property.FORWARD: ("a=2 a=3 bA2", LOG),
    Property.FINAL: ("a+a1 b<a1", QUEUE),
}
"""Histories with an anomaly that needs the clocks of a and b."""


@pytest.mark.parametrize("asked", CLOCKS)
def test_clocks_that_cannot_be_compared(asked: Property) -> None:
    line, stream = CLOCKS[asked]
    together = history(line, stream)
    told = "clocks of different processes had to be compared"
    assert_not_observable(asked, elsewhere(together, "here", "there"), told)
    assert_not_observable(asked, elsewhere(together, "", ""), told)
    # A clock that jumps after all that matters makes the process incomparable, too.
    assert_not_observable(asked, history(f"{line} bE0-0/1*3", stream), told)
    assert_not_observable(asked, history(f"{line} aE0-0/1*3", stream), told)


def test_clocks_are_needed_only_if_something_hangs_on_them() -> None:
    two = ("here", "there")
    nobody = elsewhere(history("ao0 a[1 a>1@0 b<a1@0"), *two)
    precommitted = Anomaly("precommitted read", stream=0, partition=0, process=1, index=0)
    told = "1 receive of a message before its transaction was committed"
    assert_violated(Property.ABORTED, nobody, told, precommitted)
    lower = elsewhere(history("ao2 a[1 a]1 bo1"), *two)
    told = "1 transactional id had two processes, and none committed once it was fenced"
    assert_held(Property.FENCED, lower, told)
    higher = elsewhere(history("a=2 a=3 bA3 b=3!"), *two)
    assert_held(Property.FORWARD, higher, "1 commit or assignment was not below an earlier commit")
    unasked = elsewhere(history("a=3 bA2"), *two)
    assert_not_observable(Property.FORWARD, unasked, NOTHING[Property.FORWARD])
    alone = history("a=2 a=3 a=1*3")
    backward = Anomaly("backward commit", stream=0, partition=0, group=0, process=0, index=5)
    assert_violated(Property.FORWARD, alone, "1 commit below an earlier one", backward)


def test_ages_of_a_process_whose_clock_jumped() -> None:
    line = "br1 b<a1 bE*9 b<a2 b<a3*3"
    told = "clocks of different processes had to be compared"
    assert_not_observable(Property.BOUNDED, history(line, TIMED), told)
    overruns = [Anomaly("overrun", stream=0, process=1, index=index) for index in (4, 5)]
    assert_violated(
        Property.BOUNDED, history(line, QUEUE), "2 deliveries above the limit in flight", *overruns
    )
