"""The faults that Jepsen's nemesis injected, as incidents of the history."""

from __future__ import annotations

from typing import Any, Final

from veristream.history.foreign.jepsen.operations import JepsenOp
from veristream.history.manifest import Incident

_ENDS: Final = {"start": "kill", "resume": "pause", "stop": "start", "heal": "partition"}
"""Which fault an operation ends, besides `stop-X`, which ends `start-X`."""


class Nemesis:
    """Collects the operations of the nemesis: each has two, when it began to act and when it had acted."""

    def __init__(self) -> None:
        self._acting: dict[int | str, JepsenOp] = {}
        self._lasting: dict[str, Incident] = {}
        self._over: list[Incident] = []

    def take(self, op: JepsenOp) -> None:
        """Takes one of its operations."""
        began = self._acting.get(op.process)
        if began is None or began.f != op.f:
            self._acting[op.process] = op
            return
        del self._acting[op.process]
        ended = f"start-{op.f.removeprefix('stop-')}" if op.f.startswith("stop-") else _ENDS.get(op.f, "")
        if ended in self._lasting:
            fault = self._lasting.pop(ended)
            self._over.append(Incident(fault.kind, fault.target, fault.begin_ns, op.time_ns))
            return
        target = _tell(began.value if began.value is not None else op.value)
        if op.f in self._lasting:
            fault = self._lasting.pop(op.f)
            self._over.append(Incident(fault.kind, fault.target, fault.begin_ns, began.time_ns))
        if op.f.startswith("start-") or op.f in _ENDS.values():
            self._lasting[op.f] = Incident(op.f, target, began.time_ns)
        else:
            self._over.append(Incident(op.f, target, began.time_ns, op.time_ns))

    def incidents(self) -> tuple[Incident, ...]:
        """Returns all faults by their beginning; one that was never ended has no end."""
        unfinished = [
            Incident(op.f, _tell(op.value), op.time_ns)
            for op in self._acting.values()
            if not op.f.startswith("stop-")
        ]
        found = [*self._over, *self._lasting.values(), *unfinished]
        return tuple(sorted(found, key=lambda each: (each.begin_ns, each.kind)))


def _tell(value: Any) -> str:
    match value:
        case None:
            return ""
        case dict():
            return ", ".join(sorted(map(str, value)))[:80]
        case list() | tuple() | frozenset():
            return ", ".join(sorted(map(str, value)))[:80]
        case _:
            return str(value)[:80]
