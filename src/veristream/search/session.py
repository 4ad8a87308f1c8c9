"""One exploration from beginning to end: its limits, its progress, and why it stopped."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

from veristream.search.limits import Limits, Progress, Report
from veristream.search.memory import OutOfMemoryError
from veristream.verdict import Counts, Effort, Spread

INTERRUPTED = "interrupted"
OUT_OF_MEMORY = "the memory budget"
"""How the reason begins if the memory is used up."""
QUANTUM = 1 << 17
"""How many states to expand at most before the limits are checked again."""


@dataclass(frozen=True, slots=True)
class Hit:
    """Something watched for: its kind, the state it was seen from, and the state or action it led to."""

    kind: int
    source: int
    other: int


def peak_memory_mib() -> float:
    """The peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Advancing(Protocol):
    """An exploration that a session drives: of states, of zones, or of pairs of states."""

    @property
    def counts(self) -> Counts: ...
    @property
    def byte_count(self) -> int: ...
    @property
    def budget(self) -> int: ...
    @property
    def complete(self) -> bool: ...
    def advance(self, quantum: int) -> None: ...
    def close(self) -> None: ...


@runtime_checkable
class Spreading(Protocol):
    """An exploration that may be shared between parts."""

    @property
    def spread(self) -> Spread | None: ...


def spread_of(exploration: object) -> Spread | None:
    """How the exploration is shared; None if it is not."""
    return exploration.spread if isinstance(exploration, Spreading) else None


@runtime_checkable
class Reducing(Protocol):
    """An exploration that may leave steps out, by partial-order reduction."""

    @property
    def has_left_out(self) -> bool: ...


def leaves_out(exploration: object) -> bool:
    """Whether the exploration has left out a step so far."""
    return isinstance(exploration, Reducing) and exploration.has_left_out


@runtime_checkable
class Ordered(Protocol):
    """An exploration that may go depth-first."""

    @property
    def is_deep(self) -> bool: ...


def goes_deep(exploration: object) -> bool:
    """Whether the exploration goes depth-first."""
    return isinstance(exploration, Ordered) and exploration.is_deep


@runtime_checkable
class Hashing(Protocol):
    """An exploration that may omit states: it knows visited ones only by a hash of so many bits."""

    @property
    def hash_bits(self) -> int: ...
    @property
    def omission(self) -> float: ...


def out_of_states(limits: Limits) -> str:
    """The reason for `Unknown` if the limit of states is reached."""
    return f"the limit of {limits.states_max} states was reached (--max-states)"


def out_of_seconds(limits: Limits) -> str:
    """The reason for `Unknown` if the time is up."""
    return f"the limit of {limits.seconds_max:g} seconds was reached (--max-seconds)"


def hash_bits_of(exploration: object) -> int | None:
    """How many bits the exploration keeps of a visited state; None if it keeps all of it."""
    return exploration.hash_bits if isinstance(exploration, Hashing) else None


def omission_of(exploration: object) -> float | None:
    """At most how probable it is that the exploration has omitted a state so far; None if it omits none."""
    return exploration.omission if isinstance(exploration, Hashing) else None


Explored = TypeVar("Explored", bound=Advancing)


@dataclass(slots=True)
class Session(Generic[Explored]):
    """An exploration within limits; `stopped` says which limit ended it, and is empty if none did."""

    exploration: Explored
    limits: Limits
    report: Report
    task: str
    started: float
    stopped: str = ""
    unreduced_states: int | None = None

    @property
    def seconds(self) -> float:
        """The time since the search began, including the compilation of its kernel."""
        return time.monotonic() - self.started

    def effort(self) -> Effort:
        """The cost so far."""
        counts = self.exploration.counts
        return Effort(
            counts.states,
            counts.transitions,
            counts.depth,
            self.seconds,
            peak_memory_mib(),
            self.unreduced_states,
            spread_of(self.exploration),
            frontier=counts.frontier,
            reduced=leaves_out(self.exploration),
            depth_first=goes_deep(self.exploration),
            hash_bits=hash_bits_of(self.exploration),
        )

    @property
    def out_of_memory(self) -> str:
        """The reason for `Unknown` if the memory is used up."""
        budget = self.exploration.budget >> 20
        return f"{OUT_OF_MEMORY} of {budget} MiB is used up ({self.limits.remedy})"

    @property
    def out_of_states(self) -> str:
        """The reason for `Unknown` if the limit of states is reached."""
        return out_of_states(self.limits)

    def rounds(self) -> Iterator[None]:
        """Explores round by round, until everything is explored or a limit is reached; the caller handles
        the hits in between, and may stop at any time."""
        try:
            yield None  # the initial state itself may be a hit
            while not self.exploration.complete and not self.stopped:
                self.exploration.advance(self._quantum())
                self._tell()
                yield None
                self._check_limits()
        except OutOfMemoryError:
            self.stopped = self.out_of_memory
        except KeyboardInterrupt:
            self.stopped = INTERRUPTED
        finally:
            self.exploration.close()

    def _quantum(self) -> int:
        """How many states to expand before the limits are checked again: few if few are allowed."""
        most = QUANTUM
        if self.limits.states_max is not None:
            most = min(most, max(1, self.limits.states_max - self.exploration.counts.states))
        if self.limits.seconds_max is not None:
            most = min(most, 1 << 14)
        return most

    def _tell(self) -> None:
        counts = self.exploration.counts
        progress = Progress(
            counts.states,
            counts.transitions,
            counts.depth,
            self.task,
            self.exploration.byte_count / (1 << 20),
            self.seconds,
            spread_of(self.exploration),
            frontier=counts.frontier,
        )
        self.report(progress)

    def _check_limits(self) -> None:
        if self.exploration.complete:
            return
        states_max, seconds_max = self.limits.states_max, self.limits.seconds_max
        if states_max is not None and self.exploration.counts.states >= states_max:
            self.stopped = self.out_of_states
        elif seconds_max is not None and self.seconds >= seconds_max:
            self.stopped = out_of_seconds(self.limits)
