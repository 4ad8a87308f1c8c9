"""Engines: where tasks run. What they return does not depend on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from veristream.errors import EnvironmentFailure, ModelError

RESULT: Final = -1
"""Stands in the place of a part for what goes back to the caller."""

Work = Callable[[int], Any]
Sending = Callable[[int], Iterator[tuple[int, Any]]]
"""Yields pairs of a part and what is to be joined in it, or of `RESULT` and the task's one result."""
Joining = Callable[[int, list[Any]], Any]
"""Joins all that was sent to a part, in any order."""
Tell = Callable[[str], None]


class Engine(Protocol):
    """Runs tasks, which are numbered from 0; the error of the lowest one is raised."""

    def map(self, count: int, work: Work) -> list[Any]:
        """Returns the results of all tasks in their order."""
        ...

    def join(self, count: int, work: Sending, parts: int, joining: Joining) -> tuple[list[Any], list[Any]]:
        """Returns the results of all tasks, and those of all parts, in their orders."""
        ...


@dataclass(frozen=True, slots=True)
class Here:
    """Runs one task after the other in this process."""

    def map(self, count: int, work: Work) -> list[Any]:
        """Returns the results of all tasks in their order."""
        return [work(number) for number in range(count)]

    def join(self, count: int, work: Sending, parts: int, joining: Joining) -> tuple[list[Any], list[Any]]:
        """Returns the results of all tasks, and those of all parts, in their orders."""
        waiting: list[list[Any]] = [[] for _ in range(parts)]

        def run(number: int) -> Any:
            result = None
            for part, sent in work(number):
                if part == RESULT:
                    result = sent
                else:
                    waiting[part].append(sent)
            return result

        results = self.map(count, run)
        return results, [joining(part, waiting[part]) for part in range(parts)]


@dataclass(frozen=True, slots=True)
class Failure:
    """An expected failure of a task, as it travels: exceptions with their own arguments do not."""

    kind: str
    message: str
    hint: str

    def revive(self) -> ModelError | EnvironmentFailure:
        """Returns the exception."""
        if self.kind == "ModelError":
            return ModelError(self.message, hint=self.hint)
        return EnvironmentFailure(self.message, self.hint)


def failure_of(error: ModelError | EnvironmentFailure) -> Failure:
    """Returns what travels of an exception."""
    return Failure(type(error).__name__, error.message, error.hint)
