"""What is found of one property while a history is looked through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from veristream.history.events import NONE, Event
from veristream.history.manifest import Manifest
from veristream.history.reasons import Evidence
from veristream.history.verdicts import Anomaly
from veristream.history.witnesses import ABSENCE, first_of_each, make_witness


class Found:
    """Collects what becomes the `Evidence` of one property."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._anomalies: dict[Anomaly, tuple[Event, ...]] = {}
        self.asked = 0
        self.undecided = 0
        self.uncompared = False
        self.notes: Counter[str] = Counter()

    def add(self, anomaly: Anomaly, events: Iterable[Event]) -> None:
        """Adds an anomaly with the events that show it, unless it rests on what a recording may lack."""
        if anomaly.kind in ABSENCE and not self._manifest.complete:
            return
        assert anomaly not in self._anomalies, anomaly
        self._anomalies[anomaly] = tuple(events)

    def evidence(self, operations: int) -> Evidence:
        """Returns all of it, with the witnesses of the first anomalies."""
        witnesses = (
            make_witness(anomaly, events, self._manifest) for anomaly, events in self._anomalies.items()
        )
        return Evidence(
            operations=operations,
            asked=self.asked,
            undecided=self.undecided,
            uncompared=self.uncompared,
            counts=Counter(anomaly.kind for anomaly in self._anomalies),
            witnesses=first_of_each(witnesses),
            notes=dict(self.notes),
        )


def at(kind: str, event: Event, *, group: bool = False, partition: bool = True) -> Anomaly:
    """Returns an anomaly that shows at an event: its stream, process and index, and more if asked for."""
    return Anomaly(
        kind,
        stream=event.stream,
        partition=event.partition if partition else NONE,
        group=event.group if group else NONE,
        process=event.process,
        index=event.index,
    )
