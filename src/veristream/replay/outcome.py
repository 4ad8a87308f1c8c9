"""What a replay shows of a counterexample: it happened, it did not, or it cannot be tried."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from veristream.history.audited import Audit
from veristream.history.verdicts import Judgement, Word
from veristream.replay.course import Course
from veristream.replay.plan import Plan, Planned


class Outcome(StrEnum):
    """The outcome in two words."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    NOT_EXECUTABLE = "not executable"


@dataclass(frozen=True, slots=True)
class Observed:
    """What the stage saw of a property that no audit decides: its name in tables, and a verdict."""

    property: str
    word: Word
    reason: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Something that was seen in the end, in words; a list of replays has it only if it `shows` the run."""

    told: str
    shows: bool = False


@dataclass(frozen=True, slots=True)
class Reproduced:
    """Reality took the run, and the audit finds the same property violated.

    A run that reaches something is shown by its last step: it has no judgement.
    """

    judgement: Judgement | Observed | None


@dataclass(frozen=True, slots=True)
class NotReproduced:
    """Reality left the run at `step`, or took all of it (None), and the property is not violated."""

    step: Planned | None
    instead: str
    judgement: Judgement | Observed | None


@dataclass(frozen=True, slots=True)
class NotExecutable:
    """Nothing real stands for a step of the run."""

    step: Planned
    why: str


Finding = Reproduced | NotReproduced | NotExecutable


@dataclass(frozen=True, slots=True)
class Offsets:
    """A partition of a log in the end: where readers of committed messages stop, and where it ends."""

    partition: int
    last_stable: int
    end: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replay that is over: its plan, what became of each step, what was recorded, and the finding.

    `property` is that of a history (`Property`), or one that the stage observes.
    """

    plan: Plan
    property: str | None
    finding: Finding
    course: Course | None = None
    audit: Audit | None = None
    offsets: tuple[Offsets, ...] = ()
    evidence: tuple[Evidence, ...] = ()


def outcome(finding: Finding) -> Outcome:
    """Returns the finding in two words."""
    match finding:
        case Reproduced():
            return Outcome.REPRODUCED
        case NotReproduced():
            return Outcome.NOT_REPRODUCED
        case NotExecutable():
            return Outcome.NOT_EXECUTABLE


def explain(finding: Finding) -> str:
    """Returns why, as one sentence."""
    match finding:
        case Reproduced(None):
            return "the broker took all steps, and so it is where the run leads"
        case Reproduced(judgement):
            assert judgement is not None
            return f"{judgement.property}: {judgement.reason}"
        case NotReproduced(None, instead):
            return f"the broker took all steps, but {instead}"
        case NotReproduced(step, instead):
            assert step is not None
            return f"reality left the run at {step.title}: {instead}"
        case NotExecutable(step, why):
            return f"{step.title} has no counterpart: {why}"


def conclude(course: Course, judgement: Judgement | Observed | None) -> Reproduced | NotReproduced:
    """Returns the finding of a run that was executed, by what is said of the property, if of any.

    A run that reality left reproduces nothing, whatever the audit finds: it is not this run that shows it.
    """
    if course.left is not None:
        return NotReproduced(course.left.step, course.left.instead, judgement)
    if judgement is None or judgement.word is Word.VIOLATED:
        return Reproduced(judgement)
    return NotReproduced(None, f"{judgement.property} is {judgement.word}: {judgement.reason}", judgement)
