"""The messages between the driver and the parts of a shared exploration, and what a part saves.

They travel and are saved as JSON (see `codec`); states and edges travel as bytes beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

from veristream.search.session import Hit


@dataclass(frozen=True, slots=True)
class Best:
    """The best value of a measure so far, and the state that has it; the index is -1 if there is none.

    Zones also report which part of the question asked for the measure, and the depth of the node.
    """

    value: int
    index: int
    asked: int = 0
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """What a part has counted so far and continues from."""

    transitions: int = 0
    seen: int = 0  # bits of the propositions that held in some state
    best: tuple[Best, ...] = ()


@dataclass(frozen=True, slots=True)
class SavedPart:
    """A part's share of a checkpoint: its files so far, and where it continues."""

    files: tuple[str, ...] = ()
    frontier: int = 0
    totals: Totals = Totals()
    edges: tuple[str, ...] = ()  # files of a product


@dataclass(frozen=True, slots=True)
class ZoneProgress:
    """What a part of a zone search saves beside its nodes."""

    level: int
    transitions: int
    is_shortest: bool
    best: tuple[Best, ...]
    room: Room


@dataclass(frozen=True, slots=True)
class Address:
    """Where a worker accepts connections of other workers."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Start:
    """Tells the workers each other's addresses and where to begin: with a checkpoint in `folder`, with
    states that the driver hands over, or else with the initial state."""

    addresses: tuple[Address, ...]
    folder: str
    saved: tuple[SavedPart, ...] | None
    handed_over: bool


@dataclass(frozen=True, slots=True)
class SaveTo:
    """Tells a part to write a checkpoint."""

    folder: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A worker has no more room; `disk` is the operating system's message if its disk is full, and empty
    if its memory is."""

    disk: str


@dataclass(frozen=True, slots=True)
class Counters:
    """What a part counts. Parts of zone searches count zones as states."""

    states: int = 0
    transitions: int = 0
    sent: int = 0  # records for other parts
    seen: int = 0  # bits of the propositions that held in some state
    byte_count: int = 0
    discrete: int = 0  # zones only: discrete states
    is_shortest: bool = True  # zones only: whether the first path to each zone has the fewest steps


@dataclass(frozen=True, slots=True)
class LevelReport:
    """What a part found by the end of a level; only the hits are of this level alone."""

    counters: Counters = Counters()
    best: tuple[Best, ...] = ()
    hits: tuple[Hit, ...] = ()
    spilled_bytes: int = 0

    @property
    def totals(self) -> Totals:
        return Totals(self.counters.transitions, self.counters.seen, self.best)


@dataclass(frozen=True, slots=True)
class LookReport:
    """How many states, and edges that lead to them, are left after a wave of a look."""

    left: int
    edges: int


@dataclass(frozen=True, slots=True)
class LevelDone:
    """A worker's message at the end of a level or wave; `size` is how much the next one has to do."""

    size: int
    sent_bytes: int
    report: LevelReport | LookReport


@dataclass(frozen=True, slots=True)
class StateRef:
    """A state, by its part and its index there."""

    part: int
    index: int


@dataclass(frozen=True, slots=True)
class FoundState:
    """The row of a state and how it was found; the initial state has no parent."""

    row: tuple[int, ...]
    parent: StateRef | None
    entry: int = 0  # zones only: the step that led to it


# Questions that the driver asks all parts between two levels. Each names its answer.


@dataclass(frozen=True, slots=True)
class Unwatch:
    """Stop noting hits of a kind. Answer: Done."""

    kind: int


@dataclass(frozen=True, slots=True)
class CountOrbits:
    """How many states do yours represent, by symmetry? Answer: Count."""


@dataclass(frozen=True, slots=True)
class AskRoom:
    """How much room did you need? Answer: Room."""


@dataclass(frozen=True, slots=True)
class BeginLook:
    """Begin to look for fair accepting runs in what is explored. Answer: Done."""


@dataclass(frozen=True, slots=True)
class EndLook:
    """End the look. Answer: Done."""


@dataclass(frozen=True, slots=True)
class ReachMark:
    """Begin a wave from the edges with an acceptance mark. Answer: Done."""

    bit: int


@dataclass(frozen=True, slots=True)
class ReachUnit:
    """Begin a wave from the edges of a unit of fairness. Answer: Done."""

    unit: int


@dataclass(frozen=True, slots=True)
class ReachState:
    """Begin a wave from one state. Answer: Done."""

    state: StateRef


@dataclass(frozen=True, slots=True)
class CutUnreached:
    """Remove the states that the last wave did not reach; a strong unit spares those that do not enable
    it. Answer: Count."""

    unit: int | None


@dataclass(frozen=True, slots=True)
class CutStruck:
    """Remove the states that the driver has struck out. Answer: Done."""


@dataclass(frozen=True, slots=True)
class CutReached:
    """Remove the states that the last wave reached. Answer: Done."""


@dataclass(frozen=True, slots=True)
class KeepLeft:
    """Remember which states are left. Answer: Done."""


@dataclass(frozen=True, slots=True)
class RestoreLeft:
    """Restore the states that were left at the last KeepLeft. Answer: Done."""


@dataclass(frozen=True, slots=True)
class FindLeft:
    """Which is the first state that is left? Answer: FirstLeft."""


@dataclass(frozen=True, slots=True)
class FindEnabled:
    """Which units of fairness are enabled in some state that is left? Answer: EnabledUnits."""


Question = (
    Unwatch
    | CountOrbits
    | AskRoom
    | BeginLook
    | EndLook
    | ReachMark
    | ReachUnit
    | ReachState
    | CutUnreached
    | CutStruck
    | CutReached
    | KeepLeft
    | RestoreLeft
    | FindLeft
    | FindEnabled
)


@dataclass(frozen=True, slots=True)
class Ask:
    """Carries a question to a part."""

    question: Question


@dataclass(frozen=True, slots=True)
class Done:
    """The part did what it was told."""


@dataclass(frozen=True, slots=True)
class Count:
    """A number of states."""

    states: int


@dataclass(frozen=True, slots=True)
class Room:
    """The most successors of a node, and the most pieces of a zone, that a part had room for."""

    successors: int
    pieces: int


@dataclass(frozen=True, slots=True)
class FirstLeft:
    """The index of the first state that is left in a part; None if none is left."""

    index: int | None


@dataclass(frozen=True, slots=True)
class EnabledUnits:
    """Units of fairness as bits, 63 in a word."""

    words: tuple[int, ...]


Answer = Done | Count | Room | FirstLeft | EnabledUnits
