"""The entry of the plain checker: from events to judgements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from veristream.history.events import NONE, Event
from veristream.history.manifest import Manifest
from veristream.history.oracle import (
    aborted,
    bounded,
    delivered,
    exclusive,
    fenced,
    final,
    forward,
    hanging,
    nothing_new,
    once,
    one_offset,
    order,
    processed,
    readers,
    whole,
)
from veristream.history.oracle.facts import Facts
from veristream.history.oracle.found import Found
from veristream.history.properties import Property
from veristream.history.reasons import conclude, looks_at
from veristream.history.verdicts import Judgement

_LOOKS: Mapping[Property, Callable[[Facts, Found], None]] = {
    Property.DELIVERED: delivered.look,
    Property.PROCESSED: processed.look,
    Property.ONCE: once.look,
    Property.ORDER: order.look,
    Property.ONE_OFFSET: one_offset.look,
    Property.NOTHING_NEW: nothing_new.look,
    Property.READERS: readers.look,
    Property.ABORTED: aborted.look,
    Property.WHOLE: whole.look,
    Property.FENCED: fenced.look,
    Property.HANGING: hanging.look,
    Property.EXCLUSIVE: exclusive.look,
    Property.FORWARD: forward.look,
    Property.BOUNDED: bounded.look,
    Property.FINAL: final.look,
}


def judge(
    manifest: Manifest, events: Iterable[Event], asked: Sequence[Property] = tuple(Property)
) -> tuple[Judgement, ...]:
    """Judges a history, whose events come in any order; one with gaps or repetitions is a ModelError."""
    facts = Facts(manifest, events)
    return tuple(_judge(facts, each) for each in asked)


def _judge(facts: Facts, asked: Property) -> Judgement:
    found = Found(facts.manifest)
    _LOOKS[asked](facts, found)
    operations = sum(_looked_at(facts, asked, event) for event in facts.events)
    return conclude(asked, facts.manifest, found.evidence(operations))


def _looked_at(facts: Facts, asked: Property, event: Event) -> bool:
    if event.stream == NONE:
        return looks_at(asked, event.operation, None)
    stream = facts.manifest.streams[event.stream]
    if asked is Property.READERS and stream.readers is None:
        return False
    return looks_at(asked, event.operation, stream.offsets)
