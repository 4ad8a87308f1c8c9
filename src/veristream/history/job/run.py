"""Audits a folder: chooses where it runs, by what is asked for and by its size."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from veristream.cluster import names_cluster
from veristream.errors import ModelError
from veristream.history.audited import Audit
from veristream.history.job.audit import audit
from veristream.history.job.engine import Engine, Here, Tell
from veristream.history.job.layout import Layout, read_layout
from veristream.history.job.memory import enough_memory
from veristream.history.job.sort import in_buckets
from veristream.history.properties import Property
from veristream.history.store.document import read_manifest

ROWS_HERE: Final = 30_000_000
"""Histories of fewer events are audited in this process unless a cluster is named: they take less time
than it takes to start a Spark session and its first job."""

ROWS_IN_TASK: Final = 1_000_000
"""A task of Spark takes about as long by itself as it takes to check a tenth of so many events."""

AT_ONCE_MIN: Final = 2


@dataclass(frozen=True, slots=True)
class Options:
    """How to audit: the Spark master, if one is named, and whether to count messages over time.

    `logs` are dumps of Kafka brokers' logs, from which the audit says why messages are lost.
    """

    master: str | None = None
    with_timeline: bool = False
    rows_here: int = ROWS_HERE
    logs: tuple[Path, ...] = ()


def silent(text: str) -> None:
    """Tells nobody how far an audit is."""


def audit_folder(
    folder: Path,
    asked: Sequence[Property] = tuple(Property),
    options: Options = Options(),
    tell: Tell = silent,
    name: str | None = None,
) -> Audit:
    """Audits the history in a folder, or what `import_history` makes of a recording of another kind.

    Raises ModelError if it is wrong. `name` is what it is called.
    """
    from veristream.history.foreign.kafka.losses import attribute_all, read_logs

    with _as_history(folder, options, tell) as history:
        layout = read_layout(history, read_manifest(history))
        view = read_logs(options.logs, layout.manifest) if options.logs else None
        engine = _choose(layout, options, tell)
        shared = not isinstance(engine, Here)
        if layout.manifest.buckets == 0:
            tell("sorting into buckets")
        with enough_memory(layout), in_buckets(layout, engine, shared) as in_order:
            found = audit(name or str(folder), in_order, asked, engine, tell, options.with_timeline)
    attributions = None if view is None else attribute_all(found.judgements, view)
    return replace(found, manifest=layout.manifest, attributions=attributions)


@contextmanager
def _as_history(path: Path, options: Options, tell: Tell) -> Iterator[Path]:
    """Yields the folder of a history; that of an imported one is removed in the end."""
    from veristream.history.foreign.importing import import_history
    from veristream.history.foreign.kinds import RecordingKind, detect

    kind = detect(path)
    if kind is RecordingKind.HISTORY:
        yield path
        return
    if options.master is not None and not options.master.startswith("local"):
        raise ModelError(
            f"`{path}` is {kind}, which a cluster does not read",
            hint=f"veristream import {path} --to FOLDER, which all machines of the cluster share",
        )
    tell(f"importing {kind}")
    with TemporaryDirectory(prefix="veristream-") as temporary:
        folder = Path(temporary) / "history"
        import_history([path], folder)
        yield folder


def _choose(layout: Layout, options: Options, tell: Tell) -> Engine:
    is_named = options.master is not None or names_cluster(os.environ)
    if not is_named and layout.rows < options.rows_here:
        return Here()
    tell("starting Spark")
    from veristream.history.job.cluster import OnSpark
    from veristream.spark import open_session

    session = open_session(options.master, "veristream audit", elastic=True)
    return OnSpark(session, max(AT_ONCE_MIN, layout.rows // ROWS_IN_TASK))
