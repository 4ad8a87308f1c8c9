"""What an execution of a plan is given, and what it returns; each broker has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from veristream.replay.course import Course, Tell
from veristream.replay.outcome import Evidence, Observed, Offsets
from veristream.replay.plan import Plan


@dataclass(frozen=True, slots=True)
class Given:
    """Where a plan is executed: settings as `veristream record` has them, and how long a step may wait.

    `constants` are those of the model. `observes` names what the stage has to observe, if no history shows
    the property.
    """

    settings: Mapping[str, str]
    constants: Mapping[str, int]
    seconds: float
    title: str
    steered: bool = True
    observes: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What happened: how far reality took the run, and what was seen besides the recording."""

    course: Course
    offsets: tuple[Offsets, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    observed: tuple[Observed, ...] = field(default_factory=tuple)


Execute = Callable[[Plan, Given, Path, Tell, Callable[[str], None]], Seen]
"""Starts brokers, executes a plan on them, and reads what came of it.

The recording is then in `history` of the folder. The callables are told each step, and what else goes on.
Raises ModelError if the plan has words that mean nothing to the broker's stage.
"""
