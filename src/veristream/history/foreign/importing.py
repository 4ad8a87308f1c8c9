"""Importing recordings of others: from files, whatever their kind, to a history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from veristream.errors import ModelError
from veristream.history.foreign.kinds import RecordingKind, detect, files_in
from veristream.history.foreign.recording import Recording
from veristream.history.manifest import Manifest

__all__ = ["ImportOptions", "detect", "import_history"]


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the files do not say.

    `incomplete` accepts that events are missing, for example of a client that was killed; then nothing is
    concluded from what is absent. `transactions` says whether Jepsen's operations ran in transactions; with
    None, they did if there is a `:txn`. `one_host` says that all of Kafka's clients ran on one machine.
    """

    incomplete: bool = False
    transactions: bool | None = None
    one_host: bool = False


def import_history(
    paths: Sequence[Path], folder: Path, options: ImportOptions | None = None
) -> tuple[Manifest, int]:
    """Writes a history from recordings of one run; returns its manifest and the number of its events.

    Nothing of the folder can be read as a history unless all files were read to their ends.
    """
    chosen = options or ImportOptions()
    found = _expand(paths)
    kinds = {kind for _, kind in found}
    clients = [path for path, kind in found if kind is not RecordingKind.KAFKA_LOG]
    _check_kinds(found)
    with Recording(folder) as recording:
        match next(iter(kinds - {RecordingKind.KAFKA_LOG})):
            case RecordingKind.JEPSEN_EDN | RecordingKind.JEPSEN_JSON as kind:
                from veristream.history.foreign.jepsen.history import import_jepsen

                as_json = kind is RecordingKind.JEPSEN_JSON
                manifest = import_jepsen(
                    clients[0], recording, as_json, chosen.incomplete, chosen.transactions
                )
            case RecordingKind.KAFKA_CLIENT:
                from veristream.history.foreign.kafka.dump import read_dumps
                from veristream.history.foreign.kafka.recording import import_clients

                dumps = read_dumps([path for path, kind in found if kind is RecordingKind.KAFKA_LOG])
                manifest = import_clients(clients, recording, dumps, chosen.one_host, chosen.incomplete)
            case _:
                from veristream.history.foreign.kabis import import_chain

                manifest = import_chain(clients[0], recording)
        return recording.close(manifest), recording.count


def _expand(paths: Sequence[Path]) -> list[tuple[Path, RecordingKind]]:
    """Returns all files, those of folders included, with their kinds."""
    found: list[tuple[Path, RecordingKind]] = []
    for path in paths:
        kind = detect(path)
        if path.is_dir() and kind not in (RecordingKind.HISTORY, RecordingKind.KABIS):
            found += [(each, detect(each)) for each in files_in(path)]
        else:
            found.append((path, kind))
    return found


def _check_kinds(found: Sequence[tuple[Path, RecordingKind]]) -> None:
    if not found:
        raise ModelError("no recording is named", hint="name at least one file")
    first: dict[RecordingKind, Path] = {}
    for path, kind in found:
        first.setdefault(kind, path)
    if RecordingKind.HISTORY in first:
        raise ModelError(
            f"`{first[RecordingKind.HISTORY]}` is {RecordingKind.HISTORY} already",
            hint="audit it as it is: veristream audit FOLDER",
        )
    clients = [(path, kind) for path, kind in found if kind is not RecordingKind.KAFKA_LOG]
    if not clients:
        raise ModelError(
            f"`{found[0][0]}` is {RecordingKind.KAFKA_LOG}, and no client's recording is named",
            hint="name the output of the clients, too: a log does not say what was acknowledged",
        )
    kinds = {kind for _, kind in clients}
    if len(kinds) > 1:
        told = ", ".join(f"`{first[kind]}` is {kind}" for kind in sorted(kinds))
        raise ModelError(
            f"recordings of one history are of one kind: {told}", hint="import them one by one"
        )
    kind = kinds.pop()
    if kind is not RecordingKind.KAFKA_CLIENT:
        if len(clients) > 1:
            raise ModelError(
                f"`{clients[0][0]}` and `{clients[1][0]}` are two histories", hint="import them one by one"
            )
        if RecordingKind.KAFKA_LOG in first:
            raise ModelError(
                f"`{first[RecordingKind.KAFKA_LOG]}` cannot be joined with {kind}",
                hint="name dumps at the audit: veristream audit HISTORY --log DUMP",
            )
