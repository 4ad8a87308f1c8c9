"""What a chart of a witness shows: lanes for its processes and the broker, a line for each event, and the
faults that were injected meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from veristream.history.events import Event, Operation, Outcome
from veristream.history.manifest import Incident, Manifest
from veristream.history.report.words import tell_event, tell_incident
from veristream.history.verdicts import Witness

FAULTS_MAX = 3
"""So many faults between two events have lines of their own; more are counted."""

_FROM_BROKER = (Operation.RECEIVE, Operation.ASSIGN, Operation.REVOKE, Operation.READ_TO_END)
_ALONE = (Operation.SEEK, Operation.CLOSE)
_OF_PRODUCERS = (
    Operation.SEND,
    Operation.OPEN,
    Operation.BEGIN,
    Operation.END_COMMIT,
    Operation.END_ABORT,
)


@dataclass(frozen=True, slots=True)
class Row:
    """An event: the lanes that take part, the one that leads first; or a fault, which has none."""

    time_ns: int
    moving: tuple[str, ...]
    told: str


@dataclass(frozen=True, slots=True)
class Scene:
    """The lanes of a chart, and its rows from top to bottom."""

    lanes: tuple[str, ...]
    rows: tuple[Row, ...]


def find_scene(witness: Witness, manifest: Manifest) -> Scene:
    """Returns the scene of a witness: producers first, then the broker, then the others."""
    broker = _name_broker(manifest)
    events = witness.events
    sending = dict.fromkeys(one.process for one in events if one.operation in _OF_PRODUCERS)
    names = {one.process: manifest.processes[one.process].name for one in events}
    others = [name for process, name in names.items() if process not in sending]
    lanes = (*(names[process] for process in sending), broker, *others)
    return Scene(tuple(dict.fromkeys(lanes)), tuple(_rows(events, manifest, broker)))


def _name_broker(manifest: Manifest) -> str:
    taken = {process.name for process in manifest.processes}
    wanted = manifest.source or "broker"
    return wanted if wanted not in taken else f"{wanted} (broker)"


def _rows(events: Sequence[Event], manifest: Manifest, broker: str) -> Iterator[Row]:
    incidents = sorted(manifest.incidents, key=lambda one: one.begin_ns)
    invoked: set[tuple[int, int]] = set()
    before: Event | None = None
    for event in events:
        if before is not None:
            yield from _faults([one for one in incidents if before.time_ns <= one.begin_ns < event.time_ns])
        process = manifest.processes[event.process].name
        moving = _moving(event, process, broker, (event.process, event.call) in invoked)
        yield Row(event.time_ns, moving, tell_event(event, manifest))
        if event.outcome is Outcome.INVOKE:
            invoked.add((event.process, event.call))
        before = event


def _moving(event: Event, process: str, broker: str, is_answer: bool) -> tuple[str, ...]:
    """Returns who takes part: an answer comes from the broker if its question has a row."""
    if event.operation in _ALONE or (event.outcome is Outcome.INDEFINITE and is_answer):
        return (process,)
    if is_answer or event.operation in _FROM_BROKER:
        return (broker, process)
    return (process, broker)


def _faults(incidents: Sequence[Incident]) -> Iterator[Row]:
    if len(incidents) <= FAULTS_MAX:
        for one in incidents:
            yield Row(one.begin_ns, (), tell_incident(one))
        return
    kinds = Counter(one.kind for one in incidents)
    told = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
    yield Row(incidents[0].begin_ns, (), f"{len(incidents)} faults: {told}")
