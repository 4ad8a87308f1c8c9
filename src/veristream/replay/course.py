"""Executes a plan: clients are called in the run's order, and messages wait until the run delivers them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

from veristream.replay.counterparts import Call, Deliver, Do, Expected, Itself, Missing, Return, Sent
from veristream.replay.plan import Name, Plan, Planned


@dataclass(frozen=True, slots=True)
class Held:
    """A message that waits at the proxy; `title` says what it is."""

    number: int
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a message or a call: `error` is empty if it succeeded, None if nobody knows.

    `epoch` is the newest that the broker has given to the client, if it has given one.
    """

    error: str | None
    seconds: float = 0.0
    epoch: int | None = None

    def fits(self, expected: Expected) -> bool:
        """Whether reality is where the run is."""
        match expected:
            case "ok":
                return self.error == ""
            case "refused":
                return bool(self.error)
            case "any":
                return True
            case name:
                return self.error == name


class Stage(Protocol):
    """Real clients and brokers with proxies between them, which hold the messages that are steered.

    What does not happen within the stage's time limit is None.
    """

    def call(self, process: str, verb: str, arguments: Sequence[str]) -> None:
        """Begins a call of the process's client, in a thread of its own."""

    def take_held(self, process: str, kind: str) -> Held | None:
        """Waits until a message of a kind from the process's client is held that was not taken before."""

    def deliver(self, held: Held) -> Answer | None:
        """Lets a message go on, and waits for its answer, unless the run has it in a later step."""

    def wait_returned(self, process: str) -> Answer | None:
        """Waits until the call that the process began ends."""

    def do(self, what: str, process: str, arguments: Sequence[str]) -> str:
        """Makes happen what a step says that concerns no single message; returns what went wrong."""

    def explain(self) -> str:
        """Says what passed and what waits, for whoever wonders why nothing comes."""


@dataclass(frozen=True, slots=True)
class Done:
    """A step that reality took, and how."""

    step: Planned
    how: str


@dataclass(frozen=True, slots=True)
class Left:
    """The step at which reality left the run, and what happened instead."""

    step: Planned
    instead: str


@dataclass(frozen=True, slots=True)
class Course:
    """What became of a run: the steps that were taken and, unless it is all of them, where reality left."""

    done: tuple[Done, ...]
    left: Left | None = None


Tell = Callable[[Planned], None]

Bound = dict[Name, list[Held]]
"""What waits at the proxy; of messages with the same name, the newest is delivered first."""


class _Instead(Exception):  # noqa: N818  # no error: a finding
    """Reality left the run."""


def execute(todo: Plan, stage: Stage, tell: Tell = lambda step: None, *, steered: bool = True) -> Course:
    """Executes a plan of which nothing is missing until its end, or until reality leaves it.

    Unless `steered`, clients are called in the same order, and messages arrive when they arrive.
    """
    bound: Bound = {}
    done: list[Done] = []
    for step in todo.steps:
        tell(step)
        try:
            how = _do(step, stage, bound) if steered else _call(step, stage)
            done.append(Done(step, how))
        except _Instead as instead:
            return Course(tuple(done), Left(step, str(instead)))
    return Course(tuple(done))


def _do(step: Planned, stage: Stage, bound: Bound) -> str:
    """Does one step; returns how it went, in words. Raises _Instead if reality goes another way."""
    match step.counterpart:
        case Call(verb, sends):
            stage.call(step.process, verb, step.arguments)
            return _bind(step, stage, sends, bound) if sends else f"{verb} is called"
        case Sent(sends):
            return _bind(step, stage, sends, bound)
        case Deliver(answer=expected):
            return _deliver(step, stage, bound, expected)
        case Return(expected):
            return _returned(step, stage, expected)
        case Do(what):
            if wrong := stage.do(what, step.process, step.arguments):
                raise _Instead(f"{wrong}; {stage.explain()}")
            return what
        case Itself(why):
            return why
        case Missing(why):
            raise AssertionError(f"{step.title} cannot be executed: {why}")
        case _:
            assert_never(step.counterpart)


def _call(step: Planned, stage: Stage) -> str:
    """Does a step of a run that is not steered: only what clients do by themselves."""
    match step.counterpart:
        case Call(verb):
            stage.call(step.process, verb, step.arguments)
            return f"{verb} is called"
        case Return():
            return _returned(step, stage, "any")
        case _:
            return "not steered"


def _bind(step: Planned, stage: Stage, kind: str, bound: Bound) -> str:
    held = stage.take_held(step.process, kind)
    if held is None:
        raise _Instead(f"the client of {step.process} sent no {kind}; {stage.explain()}")
    if step.message is not None:
        bound.setdefault(step.message, []).append(held)
    return f"{held.title} waits at the proxy"


def _deliver(step: Planned, stage: Stage, bound: Bound, expected: Expected | None) -> str:
    assert step.message is not None, "a message is delivered"
    held = bound[step.message].pop() if bound.get(step.message) else None
    if held is None:
        raise _Instead(f"the message {' '.join(step.message[1:])} was never sent; {stage.explain()}")
    answer = stage.deliver(held)
    if answer is None:
        raise _Instead(f"{held.title} had no answer; {stage.explain()}")
    if expected is None:
        return f"{held.title} goes on"
    if not answer.fits(expected):
        raise _Instead(f"{held.title}: {_tell(answer)}, where the run has {expected}")
    return f"{held.title}: {_tell(answer)}"


def _returned(step: Planned, stage: Stage, expected: Expected) -> str:
    answer = stage.wait_returned(step.process)
    if answer is None:
        raise _Instead(f"the call of {step.process} does not return; {stage.explain()}")
    if not answer.fits(expected):
        raise _Instead(f"the call of {step.process} ended: {_tell(answer)}, where the run has {expected}")
    if expected != "any" and step.epoch not in (None, answer.epoch):
        raise _Instead(f"{step.process} has the epoch {answer.epoch}, where the run has {step.epoch}")
    with_epoch = "" if step.epoch is None else f", with the epoch {step.epoch}"
    return f"the call returned after {answer.seconds:.1f} s: {_tell(answer)}{with_epoch}"


def _tell(answer: Answer) -> str:
    match answer.error:
        case None:
            return "its outcome is not known"
        case "":
            return "ok"
        case error:
            return f"refused with {error}"
