"""Checkpoints of a shared exploration, in a folder that driver and workers see.

Each part writes the states that it found since the last checkpoint as one Parquet file; once all have, the
driver writes a manifest that names them. A checkpoint without a manifest does not exist, so one that was
broken off does no harm.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from veristream.errors import EnvironmentFailure, ModelError

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "manifest.json"
CLAIM = "model"
"""The file that says which model the checkpoints of a folder are of."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What a part says of a checkpoint: its files so far, and where it goes on from."""

    files: tuple[str, ...] = ()
    frontier: int = 0
    transitions: int = 0
    seen: int = 0
    best: tuple[tuple[int, ...], ...] = ()
    edges: tuple[str, ...] = ()  # of a product


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checkpoint that is whole: of which search, at which level, and what each part saved."""

    digest: str
    depth: int
    unwatched: tuple[int, ...]
    hits: tuple[tuple[int, int, int], ...]  # that decided something: kind, source, other
    parts: tuple[Saved, ...]


def write_states(
    folder: str,
    name: str,
    rows: NDArray[np.int64],
    parents: NDArray[np.uint32],
    owners: NDArray[np.uint16],
) -> None:
    """Writes states to a file: their rows, and the indices and parts of their parents; raises OSError."""
    import pyarrow as pa  # takes a while to import, and only checkpoints need it

    blob = pa.py_buffer(np.ascontiguousarray(rows))
    width = 8 * rows.shape[1]
    column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(parents), [None, blob])
    table = pa.table({"row": column, "parent": pa.array(parents), "owner": pa.array(owners)})
    _write(table, folder, name)


def _write(table: pa.Table, folder: str, name: str) -> None:
    """Writes a file whole or not at all; raises OSError."""
    from pyarrow import parquet

    parquet.write_table(table, os.path.join(folder, name + ".tmp"), compression="zstd")
    os.replace(os.path.join(folder, name + ".tmp"), os.path.join(folder, name))


Edges = tuple[NDArray[np.int64], NDArray[np.uint16]]
"""Two words an edge, and the part of each one's source."""


def save_edges(edges: Edges, outs: NDArray[np.uint32], folder: str, name: str) -> None:
    """Writes edges, and how many leave each of the states that were expanded; raises OSError."""
    import pyarrow as pa

    words, owners = edges
    columns = {"ends": words[::2], "entry": words[1::2], "owner": owners}
    _write(pa.table({key: pa.array(value) for key, value in columns.items()}), folder, name)
    _write(pa.table({"out": pa.array(outs)}), folder, _outs_name(name))


def read_edges(folder: str, name: str) -> tuple[Edges, NDArray[np.uint32]]:
    """Edges as they were saved, and how many leave each state; raises OSError."""
    from pyarrow import parquet

    table = parquet.read_table(os.path.join(folder, name))
    ends, entries, owners = (table.column(key).to_numpy() for key in ("ends", "entry", "owner"))
    words = np.stack([ends, entries], axis=1).reshape(-1)
    outs = parquet.read_table(os.path.join(folder, _outs_name(name))).column("out").to_numpy()
    return (words, owners), outs


def _outs_name(name: str) -> str:
    return name.replace("edges-", "outs-")


def read_states(
    folder: str, name: str, word_count: int
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint16]]:
    """Rows, parents' indices and parents' parts of the states in a file; raises OSError."""
    from pyarrow import parquet

    table = parquet.read_table(os.path.join(folder, name)).combine_chunks()
    column = table.column("row").chunk(0)
    rows = np.frombuffer(column.buffers()[1], np.int64, offset=0)[: len(column) * word_count]
    parents = table.column("parent").to_numpy().astype(np.uint32)
    owners = table.column("owner").to_numpy().astype(np.uint16)
    return np.ascontiguousarray(rows), parents, owners


def write_manifest(folder: str, manifest: Manifest) -> None:
    """Makes the checkpoint exist; raises EnvironmentFailure where there is no room for it."""
    path = Path(folder) / MANIFEST
    try:
        path.with_suffix(".tmp").write_text(json.dumps(asdict(manifest)), encoding="utf-8")
        os.replace(path.with_suffix(".tmp"), path)
    except OSError as error:
        raise EnvironmentFailure(
            f"the checkpoint cannot be written: {error}", "make room, or give --checkpoint another folder"
        ) from error


def is_saved(folder: str) -> bool:
    """Whether a checkpoint is in the folder, of any search of a model."""
    return any(Path(folder).glob(f"*/{MANIFEST}"))


def make_folder(folder: str, name: str) -> str:
    """The folder for checkpoints of one search of a model, made where it is not there yet."""
    path = Path(folder) / name
    path.mkdir(parents=True, exist_ok=True)
    return str(path)


def claim_folder(folder: str, digest: str) -> None:
    """Notes which model a folder has checkpoints of; raises ModelError where it is another one."""
    path = Path(folder) / CLAIM
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(digest, encoding="utf-8")
        found = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentFailure(f"checkpoints cannot be kept in {folder}: {error}") from error
    if found != digest:
        raise ModelError(
            f"the checkpoint in {folder} is of another model, or of other properties",
            hint="resume with the same model, constants and properties, or use another folder",
        )


def read_manifest(folder: str, digest: str, part_count: int) -> Manifest | None:
    """The checkpoint in the folder; None where there is none. Raises ModelError for another search's."""
    path = Path(folder) / MANIFEST
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        parts = tuple(read_saved(one) for one in found["parts"])
        hits = tuple((kind, source, other) for kind, source, other in found["hits"])
        manifest = Manifest(found["digest"], found["depth"], tuple(found["unwatched"]), hits, parts)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EnvironmentFailure(
            f"the checkpoint in {folder} cannot be read: {error}", "begin anew in an empty folder"
        ) from error
    if manifest.digest != digest:
        raise ModelError(
            f"the checkpoint in {folder} is of another model, or of other properties",
            hint="resume with the same model, constants and properties, or use another folder",
        )
    if len(manifest.parts) != part_count:
        raise EnvironmentFailure(
            f"the checkpoint in {folder} has {len(manifest.parts)} parts for {part_count} workers",
            f"resume with as many, such as --master local[{len(manifest.parts)}]",
        )
    return manifest


def read_saved(found: dict[str, object]) -> Saved:
    """What a part said, as it was written down."""
    files, best, edges = found["files"], found["best"], found["edges"]
    assert isinstance(files, list) and isinstance(best, list) and isinstance(edges, list)
    numbers = [found[key] for key in ("frontier", "transitions", "seen")]
    frontier, transitions, seen = (int(str(one)) for one in numbers)
    bests = tuple(tuple(one) for one in best)
    return Saved(tuple(files), frontier, transitions, seen, bests, tuple(edges))
