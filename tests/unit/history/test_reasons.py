from dataclasses import replace

import pytest

from veristream.history.events import Event, Operation, Outcome
from veristream.history.manifest import Manifest, Process, Stream
from veristream.history.properties import Property
from veristream.history.reasons import EVIDENCE, Evidence, conclude, looks_at, merge, tell_index
from veristream.history.verdicts import Anomaly, Witness, Word
from veristream.history.witnesses import ABSENCE, EVENTS, KINDS, KINDS_OF, make_witness

MANIFEST = Manifest(
    source="test",
    processes=(Process("p0", "h"), Process("p1", "h")),
    streams=(Stream("log", readers=(0,)), Stream("queue", offsets=False)),
    groups=("g",),
)


def test_every_kind_belongs_to_one_property_and_has_its_texts() -> None:
    kinds = [kind for each in Property for kind in KINDS_OF[each]]
    assert sorted(kinds) == sorted(KINDS)
    assert set(KINDS) >= ABSENCE
    assert {kind.removeprefix("int-") for kind in KINDS} == set(EVENTS)
    assert set(EVIDENCE) == set(Property)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_has_a_sentence(kind: str) -> None:
    anomaly = Anomaly(
        kind,
        stream=0,
        partition=2,
        group=0,
        producer=1,
        number=7,
        offset=3,
        process=1,
        index=4,
        transaction=6,
    )
    events = (
        Event(1, 3, 0, Operation.READY, Outcome.OK, stream=0, offset=9, number=2),
        Event(
            1,
            4,
            1,
            Operation.RECEIVE,
            Outcome.OK,
            time_ns=5,
            stream=0,
            offset=3,
            producer=1,
            number=7,
            attempt=9,
        ),
    )
    told = make_witness(anomaly, [events[1], events[0], events[1]], MANIFEST)
    assert told.events == events
    assert told.told[0].islower() or told.told[0] == "`"
    assert "-1" not in told.told


@pytest.mark.parametrize("asked", list(Property))
def test_nothing_seen_is_never_held(asked: Property) -> None:
    judgement = conclude(asked, MANIFEST, Evidence(operations=3))
    assert judgement.word is Word.NOT_OBSERVABLE
    assert judgement.reason
    assert judgement.operations == 3


def test_conclude_orders_what_stands_against_a_property() -> None:
    def word(evidence: Evidence, manifest: Manifest = MANIFEST) -> tuple[Word, str]:
        judgement = conclude(Property.DELIVERED, manifest, evidence)
        return judgement.word, judgement.reason

    assert word(Evidence(asked=1)) == (Word.HELD, "1 acknowledged message was received")
    assert word(Evidence(asked=2)) == (Word.HELD, "2 acknowledged messages were received")
    unread, reason = word(Evidence(asked=2, undecided=1))
    assert unread is Word.NOT_OBSERVABLE
    assert reason.startswith("1 of 2 acknowledged messages were neither received nor read to the end")
    assert word(Evidence(asked=2), replace(MANIFEST, complete=False))[0] is Word.NOT_OBSERVABLE
    assert "clock jumped" in word(Evidence(asked=2, uncompared=True))[1]
    found = Evidence(asked=2, undecided=1, uncompared=True, counts={"lost write": 2})
    assert word(found) == (Word.VIOLATED, "2 acknowledged messages were lost")


def test_parts_add_up_and_keep_the_first_witnesses() -> None:
    def part(*numbers: int) -> Evidence:
        found = tuple(Witness(Anomaly("duplicate", number=number), "", ()) for number in numbers)
        return Evidence(1, 2, 3, False, {"duplicate": len(numbers)}, found, {"G0": 1})

    whole = merge([part(5, 1), part(4, 2, 3)])
    assert (whole.operations, whole.asked, whole.undecided, whole.uncompared) == (2, 4, 6, False)
    assert whole.counts == {"duplicate": 5}
    assert whole.notes == {"G0": 2}
    assert [witness.anomaly.number for witness in whole.witnesses] == [1, 2, 3]


def test_what_is_looked_at_depends_on_the_kind_of_stream() -> None:
    assert looks_at(Property.BOUNDED, Operation.RECEIVE, is_log=False)
    assert not looks_at(Property.BOUNDED, Operation.RECEIVE, is_log=True)
    assert not looks_at(Property.ABORTED, Operation.RECEIVE, is_log=False)
    assert looks_at(Property.FENCED, Operation.OPEN, is_log=None)


def test_gaps_and_repetitions_are_told_apart() -> None:
    event = Event(0, 4, 0, Operation.CLOSE, Outcome.OK)
    assert tell_index("p", 3, event) == "process `p` has no event with index 3, but one with 4"
    assert tell_index("p", 5, event) == "process `p` has two events with index 4"
