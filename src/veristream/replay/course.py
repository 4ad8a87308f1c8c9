"""Executes a plan: clients are called in the run's order, and messages wait until the run delivers them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
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

    `told` says more than that, if there is more to say. `epoch` is the newest that the broker has given to
    the client, if it has given one.
    """

    error: str | None
    seconds: float = 0.0
    told: str = ""
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


class _Instead(Exception):  # noqa: N818  # no error: a finding
    """Reality left the run."""


def execute(todo: Plan, stage: Stage, tell: Tell = lambda step: None, *, steered: bool = True) -> Course:
    """Executes a plan of which nothing is missing until its end, or until reality leaves it.

    Unless `steered`, clients are called in the same order, and messages arrive when they arrive.
    """
    done: list[Done] = []
    waiting = _Waiting(stage)
    for step in todo.steps:
        tell(step)
        try:
            how = _do(step, stage, waiting) if steered else _call(step, stage)
            done.append(Done(step, how))
        except _Instead as instead:
            return Course(tuple(done), Left(step, str(instead)))
    return Course(tuple(done))


@dataclass(slots=True)
class _Waiting:
    """The messages that wait at the proxy, by what the model calls them; equal ones in their order.

    A step says whether it takes the oldest of those or the newest.
    Nobody has looked yet for one of which only the process and the kind are known.
    """

    stage: Stage
    _bound: dict[Name, deque[Held | tuple[str, str]]] = field(default_factory=dict)

    def take(self, step: Planned, kind: str, *, behind: bool = False) -> str:
        """Waits until the message that a step adds is held; returns how it went, in words.

        One that stays `behind` others is expected at its delivery.
        """
        if behind and step.adds is not None and self._has(step.adds):
            self._add(step, (step.client, kind))
            return f"the next {kind} of {step.client} stays behind what waits at the proxy"
        held = self._find(step.client, kind)
        self._add(step, held)
        return f"{held.title} waits at the proxy"

    def pop(self, step: Planned) -> Held:
        """Returns the message that a step takes, waiting for one that was only expected."""
        assert step.takes is not None, "a message is delivered"
        bound = self._bound.get(step.takes)
        if not bound:
            named = " ".join(step.takes[1:])
            raise _Instead(f"the message {named} was never sent; {self.stage.explain()}")
        match bound.pop() if step.newest else bound.popleft():
            case Held() as held:
                return held
            case (process, kind):
                return self._find(process, kind)

    def lose(self, variables: Sequence[str]) -> None:
        """Forgets the messages in some variables of the model."""
        for name in [each for each in self._bound if each[0] in variables]:
            del self._bound[name]

    def _has(self, name: Name) -> bool:
        """Whether another message of the same variable and client waits."""
        return any(bound and each[:2] == name[:2] for each, bound in self._bound.items())

    def _find(self, process: str, kind: str) -> Held:
        held = self.stage.take_held(process, kind)
        if held is None:
            raise _Instead(f"the client of {process} sent no {kind}; {self.stage.explain()}")
        return held

    def _add(self, step: Planned, what: Held | tuple[str, str]) -> None:
        if step.adds is not None:
            self._bound.setdefault(step.adds, deque()).append(what)


def _do(step: Planned, stage: Stage, waiting: _Waiting) -> str:
    """Does one step; returns how it went, in words. Raises _Instead if reality goes another way."""
    match step.counterpart:
        case Call() as call:
            return "; ".join(_do_call(step, call, stage, waiting))
        case Sent(sends):
            return waiting.take(step, sends)
        case Deliver(answer=expected, sends=sends):
            told = _deliver(waiting.pop(step), stage, expected)
            return f"{told}; {waiting.take(step, sends)}" if sends else told
        case Return(expected):
            return _returned(step, stage, expected)
        case Do(what, loses):
            if wrong := stage.do(what, step.process, step.arguments):
                raise _Instead(f"{wrong}; {stage.explain()}")
            waiting.lose(loses)
            return what
        case Itself(why):
            return why
        case Missing(why):
            raise AssertionError(f"{step.title} cannot be executed: {why}")
        case _:
            assert_never(step.counterpart)


def _do_call(step: Planned, call: Call, stage: Stage, waiting: _Waiting) -> Iterator[str]:
    """Makes a call; yields what is to be told of it."""
    stage.call(step.process, call.verb, _arguments(step))
    if not call.sends and call.returns is None:
        yield f"{call.verb} is called"
    if call.sends:
        yield waiting.take(step, call.sends, behind=call.behind)
    if call.returns is not None:
        yield _returned(step, stage, call.returns)


def _arguments(step: Planned) -> Sequence[str]:
    """Returns what the call gets: the name of the message that it is about, or the action's arguments."""
    return step.takes[2:] if step.takes is not None else step.arguments


def _call(step: Planned, stage: Stage) -> str:
    """Does a step of a run that is not steered: only what clients do by themselves."""
    match step.counterpart:
        case Call(verb, returns=returns):
            stage.call(step.process, verb, _arguments(step))
            return f"{verb} is called" if returns is None else _returned(step, stage, "any")
        case Return():
            return _returned(step, stage, "any")
        case _:
            return "not steered"


def _deliver(held: Held, stage: Stage, expected: Expected | None) -> str:
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
        told = f"the call of {step.process} ended: {_tell(answer)}, where the run has {expected}"
        raise _Instead(f"{told}; {stage.explain()}" if answer.told else told)
    if expected != "any" and step.epoch not in (None, answer.epoch):
        raise _Instead(f"{step.process} has the epoch {answer.epoch}, where the run has {step.epoch}")
    with_epoch = "" if step.epoch is None else f", with the epoch {step.epoch}"
    return f"the call returned after {answer.seconds:.1f} s: {_tell(answer)}{with_epoch}"


def _tell(answer: Answer) -> str:
    match answer.error:
        case _ if answer.told:
            return answer.told
        case None:
            return "its outcome is not known"
        case "":
            return "ok"
        case error:
            return f"refused with {error}"
