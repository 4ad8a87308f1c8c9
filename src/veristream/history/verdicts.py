"""Verdicts on histories: held, violated with witnesses, or not observable with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from veristream.history.events import NONE, Event


class Word(StrEnum):
    """A verdict in words, as JSON has it."""

    HELD = "held"
    VIOLATED = "violated"
    NOT_OBSERVABLE = "not observable"


@dataclass(frozen=True, slots=True, order=True)
class Anomaly:
    """Something that a property forbids, by what identifies it; two anomalies of a history differ.

    Which fields it has depends on its kind. `process` and `index` name the event at which it shows.
    """

    kind: str
    stream: int = NONE
    partition: int = NONE
    group: int = NONE
    producer: int = NONE
    number: int = NONE
    offset: int = NONE
    process: int = NONE
    index: int = NONE
    transaction: int = NONE


@dataclass(frozen=True, slots=True)
class Witness:
    """An anomaly with the fewest events that show it, in the order of time, and a sentence."""

    anomaly: Anomaly
    told: str
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a history says of one property.

    `operations` is how many events were looked at for it. `counts` has the number of anomalies by kind, all
    of them; `witnesses` are the first of each kind. `notes` counts what is legal and worth knowing.
    """

    property: str
    word: Word
    reason: str
    operations: int
    counts: Mapping[str, int] = field(default_factory=dict)
    witnesses: tuple[Witness, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)
