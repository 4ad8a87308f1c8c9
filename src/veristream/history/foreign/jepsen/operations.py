"""Operations of a Jepsen history, from EDN or JSON, each checked by itself and in its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from veristream.errors import ModelError, suggest
from veristream.history.events import Outcome
from veristream.history.foreign.edn import EdnReader
from veristream.history.foreign.json import JsonReader

_TYPES: Final = {
    "invoke": Outcome.INVOKE,
    "ok": Outcome.OK,
    "fail": Outcome.FAIL,
    "info": Outcome.INDEFINITE,
}
_NO_FIELDS: Final[dict[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class JepsenOp:
    """One operation: an invocation, or what became of one; `more` is the whole map."""

    place: str  # file and line
    process: int | str
    outcome: Outcome
    f: str
    value: Any
    time_ns: int
    more: dict[str, Any]

    @property
    def by_nemesis(self) -> bool:
        """Whether no client did it."""
        return isinstance(self.process, str)

    def error(self, message: str, hint: str = "") -> ModelError:
        """Returns an error that says where the operation is."""
        return ModelError(f"{self.place}: {message}", hint=hint)


@dataclass(frozen=True, slots=True)
class Pair:
    """An invocation of a client and its completion; None if the history ends before it."""

    invocation: JepsenOp
    completion: JepsenOp | None


def read_operations(path: Path, as_json: bool, incomplete: bool) -> Iterator[JepsenOp]:
    """Yields all operations; `incomplete` permits that some are missing, as their indices show."""
    checked = _InOrder(incomplete)
    count = 0
    for line, value in JsonReader(path) if as_json else EdnReader(path):
        operation = _operation(f"{path}:{line}", value, count)
        checked.check(operation)
        count += 1
        yield operation
    if not count:
        raise ModelError(
            f"`{path}` contains no operation", hint="name the history.edn of a Jepsen test that has run"
        )


class _InOrder:
    """Checks that indices count the operations, and that either all or none have index and time."""

    def __init__(self, incomplete: bool) -> None:
        self._incomplete = incomplete
        self._index: int | None = None
        self._fields: tuple[bool, bool] | None = None

    def check(self, op: JepsenOp) -> None:
        fields = ("index" in op.more, "time" in op.more)
        if self._fields is None:
            self._fields = fields
        elif fields != self._fields:
            name = "index" if fields[0] != self._fields[0] else "time"
            raise op.error(f"some operations have :{name} and some have none", "export the history again")
        if not fields[0]:
            return
        index = op.more["index"]
        if not _is_natural(index):
            raise op.error(f":index is {index!r}, not a natural number")
        expected = 0 if self._index is None else self._index + 1
        if index < expected:
            raise op.error(
                f":index is {index} after {expected - 1}: an operation is doubled, or out of order",
                "name one history of one test, as Jepsen wrote it",
            )
        if index > expected and not self._incomplete:
            raise op.error(
                f":index is {index}, and {expected} was expected: operations are missing",
                "export the whole history; if some were left out on purpose, say --incomplete",
            )
        self._index = index


def _operation(place: str, value: Any, count: int) -> JepsenOp:
    if not isinstance(value, dict):
        raise ModelError(f"{place}: an operation is a map, and this is none", hint=_FORM)
    for name in ("process", "type", "f"):
        if name not in value:
            raise ModelError(f"{place}: the operation has no :{name}", hint=_FORM)
    process, kind, f = value["process"], value["type"], value["f"]
    if not (_is_natural(process) or isinstance(process, str)):
        raise ModelError(f"{place}: :process is {process!r}, not a number or :nemesis", hint=_FORM)
    outcome = _TYPES.get(kind) if isinstance(kind, str) else None
    if outcome is None:
        hint = suggest(kind, _TYPES) if isinstance(kind, str) else ""
        raise ModelError(f"{place}: unknown :type {kind!r}", hint=hint or _FORM)
    if not isinstance(f, str):
        raise ModelError(f"{place}: :f is {f!r}, not a keyword", hint=_FORM)
    time_ns = value.get("time", count)  # a history without times is in real-time order nevertheless
    if isinstance(time_ns, bool) or not isinstance(time_ns, int) or abs(time_ns) >= 2**62:
        raise ModelError(f"{place}: :time is {time_ns!r}, not a number of nanoseconds", hint=_FORM)
    return JepsenOp(place, process, outcome, f, value.get("value"), time_ns, value)


_FORM: Final = "an operation has :process, :type (:invoke, :ok, :fail or :info), :f and :value"


def _is_natural(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class Pairing:
    """Joins the invocations of clients with their completions."""

    def __init__(self, incomplete: bool) -> None:
        self._incomplete = incomplete
        self._under_way: dict[int | str, JepsenOp] = {}
        self._ended: dict[int | str, str] = {}

    def add(self, op: JepsenOp) -> Pair | None:
        """Returns the pair that the operation completes; None if it is an invocation."""
        if op.process in self._ended:
            raise op.error(
                f"process {op.process} goes on after it crashed at {self._ended[op.process]}",
                "Jepsen gives a client that crashed a new number: name the history of one test",
            )
        if op.outcome is Outcome.INVOKE:
            if op.process in self._under_way:
                before = self._under_way[op.process].place
                raise op.error(f"process {op.process} invokes :{op.f} before that of {before} ended")
            self._under_way[op.process] = op
            return None
        invocation = self._under_way.pop(op.process, None)
        if invocation is None:
            if self._incomplete:
                return None
            raise op.error(
                f"process {op.process} completes :{op.f}, and has invoked nothing",
                "export the whole history; if some of it was left out on purpose, say --incomplete",
            )
        if invocation.f != op.f:
            raise op.error(f"process {op.process} completes :{op.f}, and has invoked :{invocation.f}")
        if op.outcome is Outcome.INDEFINITE or op.more.get("end-process?") is True:
            self._ended[op.process] = op.place
        return Pair(invocation, op)

    def rest(self) -> Iterator[Pair]:
        """Yields what never completed, which is an error unless the history may be incomplete."""
        for invocation in self._under_way.values():
            if not self._incomplete:
                raise invocation.error(
                    f"the history ends before process {invocation.process} completes :{invocation.f}",
                    "copy the history again; if the test was interrupted, say --incomplete",
                )
            yield Pair(invocation, None)
