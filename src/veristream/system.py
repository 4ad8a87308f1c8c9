"""What a language must tell of a system, so that it can be explored."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from veristream.ir.property import Formula
from veristream.verdict import Fault, Invalid, Shown

State = tuple[Hashable, ...]
"""The values of all variables."""


class When(Enum):
    """Where a condition is to hold."""

    STATES = "in all states"
    INITIAL = "in all initial states"
    STEPS = "in all steps"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition with the name of the property that it belongs to; a property may have several.

    `holds` takes the state before, if there is one, and the state.
    """

    name: str
    when: When
    holds: Callable[[State | None, State], bool]


@dataclass(frozen=True, slots=True)
class Assumption:
    """A condition of constants."""

    name: str
    holds: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class RunCondition:
    """A formula that all runs are to satisfy on an assumption.

    Its propositions are names of conditions of a step, or of the state before the step. A run may stutter:
    a state may follow itself at any time, also forever.
    """

    name: str
    formula: Formula
    assumption: Formula | None
    propositions: Mapping[str, Callable[[State, State], bool]]


class System(Protocol):
    """States with their steps, and what is to hold of them.

    Everything that computes something may raise `failure`, which `fault_of` explains.
    """

    @property
    def name(self) -> str: ...
    @property
    def conditions(self) -> Sequence[Condition]: ...
    @property
    def run_conditions(self) -> Sequence[RunCondition]: ...
    @property
    def assumptions(self) -> Sequence[Assumption]: ...
    @property
    def checks_deadlock(self) -> bool: ...
    @property
    def has_steps(self) -> bool:
        """Whether there is anything to explore."""
        ...

    @property
    def refused(self) -> Mapping[str, Invalid]:
        """Properties that cannot be checked, by name."""
        ...

    @property
    def failure(self) -> type[Exception]: ...
    def initial(self) -> Iterable[State]:
        """The initial states; a state may come several times."""
        ...

    def steps(self, state: State) -> Iterable[State]:
        """The states after each step; a state may come several times."""
        ...

    def named_steps(self, state: State) -> Iterable[tuple[str, State]]:
        """The same with the names of the actions."""
        ...

    def key(self, state: State) -> Hashable:
        """What two states share that count as one."""
        ...

    def is_within(self, state: State) -> bool:
        """Whether the constraints let the exploration go on from a state."""
        ...

    def is_allowed(self, before: State, after: State) -> bool:
        """Whether the constraints of steps let the exploration take one."""
        ...

    def show(self, state: State) -> Mapping[str, Shown]: ...
    def fault_of(self, error: Exception) -> Fault: ...
