"""The entry: which events it takes, in which order it answers, what it counts."""

from dataclasses import replace

import pytest

from veristream.errors import ModelError
from veristream.history.manifest import Stream
from veristream.history.oracle.judge import judge
from veristream.history.properties import Property
from veristream.history.reasons import INDEX_HINT
from veristream_testing.histories.notation import LOG, QUEUE, history

LINE = history("ao0 a[1 a>1@0 a>2@1 a]1 b<a1@0^0 b<a2@1^0 b+a1@0^0 b=2 bE0-2 c<a2.1", LOG, QUEUE)


def test_events_come_in_any_order() -> None:
    forward = judge(LINE.manifest, LINE.events)
    assert judge(LINE.manifest, reversed(LINE.events)) == forward
    assert [judgement.property for judgement in forward] == [each.value for each in Property]


def test_only_what_is_asked_is_answered() -> None:
    asked = [Property.ORDER, Property.DELIVERED]
    everything = {judgement.property: judgement for judgement in judge(LINE.manifest, LINE.events)}
    assert judge(LINE.manifest, LINE.events, asked) == tuple(everything[each] for each in asked)
    assert judge(LINE.manifest, LINE.events, []) == ()


def test_events_that_were_looked_at() -> None:
    streams = (LOG, replace(QUEUE, readers=(2,)))
    manifest = replace(LINE.manifest, streams=streams)
    counted = {judgement.property: judgement.operations for judgement in judge(manifest, LINE.events)}
    assert counted == {
        Property.DELIVERED: 4 + 2 + 3 + 2,
        Property.PROCESSED: 4 + 2 + 2 + 2,
        Property.ONCE: 4 + 3,
        Property.ORDER: 4 + 3,
        Property.ONE_OFFSET: 4 + 2,
        Property.NOTHING_NEW: 4 + 3,
        Property.READERS: 1,
        Property.ABORTED: 4 + 2 + 2,
        Property.WHOLE: 4 + 2 + 2 + 2 + 2,
        Property.FENCED: 2 + 2 + 2,
        Property.HANGING: 4 + 2 + 2 + 2,
        Property.EXCLUSIVE: 0,
        Property.FORWARD: 2,
        Property.BOUNDED: 1,
        Property.FINAL: 1,
    }


def test_gaps_and_repetitions_are_errors() -> None:
    events = list(LINE.events)
    for without, told in (
        (events[1:], "process `a` has no event with index 0, but one with 1"),
        (events[:3] + events[4:], "process `a` has no event with index 3, but one with 4"),
        ([*events, events[3]], "process `a` has two events with index 3"),
    ):
        with pytest.raises(ModelError) as error:
            judge(LINE.manifest, without)
        assert error.value.message == told
        assert error.value.hint == INDEX_HINT


def test_an_incomplete_recording_may_have_gaps_and_no_repetitions() -> None:
    part = replace(LINE.manifest, complete=False)
    events = list(LINE.events)
    assert len(judge(part, events[1:3] + events[5:])) == len(Property)
    with pytest.raises(ModelError, match="two events with index 3"):
        judge(part, [*events[2:], events[3]])


def test_three_witnesses_of_each_kind_are_kept() -> None:
    of = history(" ".join(f"b<a{number}@{9 - number}" for number in range(6)))
    (order,) = judge(of.manifest, of.events, [Property.ORDER])
    assert order.counts == {"nonmonotonic poll": 5}
    assert [witness.anomaly.index for witness in order.witnesses] == [1, 2, 3]


def test_streams_are_apart() -> None:
    streams = (LOG, Stream("other"))
    of = history("a>1@0 a>1@0.1 b<a1@0 b<a1@0.1 bE0-1", *streams)
    (once,) = judge(of.manifest, of.events, [Property.ONCE])
    assert once.reason == "2 received messages came once each"
