"""Importing a Jepsen history: which workload it is of, and all of its operations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Protocol

from veristream.errors import EnvironmentFailure, suggest
from veristream.history.foreign.jepsen import log_workload, queue_workload
from veristream.history.foreign.jepsen.log_workload import LogWorkload
from veristream.history.foreign.jepsen.nemesis import Nemesis
from veristream.history.foreign.jepsen.operations import JepsenOp, Pair, Pairing, read_operations
from veristream.history.foreign.jepsen.queue_workload import QueueWorkload
from veristream.history.foreign.recording import Recording
from veristream.history.manifest import Manifest

_TRANSACTION: Final = re.compile(rb':f\s+:txn\b|"f"\s*:\s*":?txn"')
_BYTES_AT_ONCE: Final = 1 << 20
_OVERLAP: Final = 64


class _Workload(Protocol):
    def begin(self, op: JepsenOp) -> None: ...
    def end(self, pair: Pair) -> None: ...
    def finish(self) -> None: ...


def import_jepsen(
    path: Path, recording: Recording, as_json: bool, incomplete: bool, transactions: bool | None
) -> Manifest:
    """Adds all events of a history, and returns the manifest without the names.

    With `transactions` None, all sends and polls are in transactions if the history has a `:txn`; Jepsen
    runs either all or none of them so.
    """
    if transactions is None:
        transactions = has_transactions(path)
    pairing, nemesis = Pairing(incomplete), Nemesis()
    workload: _Workload | None = None
    name = ""
    for op in read_operations(path, as_json, incomplete):
        if op.by_nemesis:
            nemesis.take(op)
            continue
        if workload is None:
            workload, name = _choose(op, recording, transactions)
        _check(op, name)
        pair = pairing.add(op)
        if pair is not None:
            workload.end(pair)
        elif op.f in ("send", "txn", "poll", "enqueue", "dequeue", "drain", *log_workload.FUNCTIONS):
            workload.begin(op)
    if workload is None:
        raise EnvironmentFailure(f"`{path}` has no operation of a client", "name another history")
    for pair in pairing.rest():
        workload.end(pair)
    workload.finish()
    return Manifest(
        source="jepsen",
        processes=(),
        streams=(),
        complete=not incomplete,
        workload=name,
        settings={"transactions": "yes" if transactions else "no"},
        incidents=nemesis.incidents(),
    )


def has_transactions(path: Path) -> bool:
    """Says whether an operation of the history is a `:txn`."""
    before = b""
    try:
        with path.open("rb") as file:
            while block := file.read(_BYTES_AT_ONCE):
                if _TRANSACTION.search(before + block):
                    return True
                before = block[-_OVERLAP:]
    except OSError as error:
        raise EnvironmentFailure(f"cannot read `{path}`: {error.strerror}") from error
    return False


def _choose(op: JepsenOp, recording: Recording, transactions: bool) -> tuple[_Workload, str]:
    if op.f in queue_workload.FUNCTIONS:
        return QueueWorkload(recording), "queue"
    return LogWorkload(recording, transactions), "kafka"


_FUNCTIONS: Final = {"kafka": log_workload.FUNCTIONS, "queue": queue_workload.FUNCTIONS}


def _check(op: JepsenOp, workload: str) -> None:
    known = _FUNCTIONS[workload]
    if op.f not in known:
        listed = ", ".join(f":{name}" for name in known)
        hint = suggest(op.f, known) or f"Veristream reads the workloads kafka and queue: {listed}"
        raise op.error(f"unknown :f :{op.f}", hint)
