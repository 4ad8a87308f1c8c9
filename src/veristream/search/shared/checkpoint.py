"""Checkpoints of a shared exploration, in a folder that the driver and all workers can access.

Each part writes the states that it found since the last checkpoint to one Parquet file. Once all parts
have, the driver writes a manifest that names the files. Files without a manifest are ignored, so an
interrupted checkpoint does no harm.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from veristream.errors import EnvironmentFailure, ModelError
from veristream.search.session import Hit
from veristream.search.shared.codec import MessageError, decode, encode
from veristream.search.shared.messages import SavedPart

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "manifest.json"
CLAIM = "model"
"""The file that records which model the checkpoints in a folder belong to."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A complete checkpoint: which search it belongs to, its level, and what each part saved."""

    digest: str
    depth: int
    unwatched: tuple[int, ...]
    hits: tuple[Hit, ...]  # those that decided a property
    parts: tuple[SavedPart, ...]


def write_states(
    folder: str,
    name: str,
    rows: NDArray[np.int64],
    parents: NDArray[np.uint32],
    owners: NDArray[np.uint16],
) -> None:
    """Writes the rows of states and the indices and parts of their parents; raises OSError."""
    import pyarrow as pa  # takes a while to import, and only checkpoints need it

    blob = pa.py_buffer(np.ascontiguousarray(rows))
    width = 8 * rows.shape[1]
    column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(parents), [None, blob])
    table = pa.table({"row": column, "parent": pa.array(parents), "owner": pa.array(owners)})
    _write(table, folder, name)


def _write(table: pa.Table, folder: str, name: str) -> None:
    """Writes a file atomically; raises OSError."""
    from pyarrow import parquet

    parquet.write_table(table, os.path.join(folder, name + ".tmp"), compression="zstd")
    os.replace(os.path.join(folder, name + ".tmp"), os.path.join(folder, name))


Edges = tuple[NDArray[np.int64], NDArray[np.uint16]]
"""Two words per edge, and the part of each edge's source."""


def save_edges(edges: Edges, outs: NDArray[np.uint32], folder: str, name: str) -> None:
    """Writes edges, and the number that leave each expanded state; raises OSError."""
    import pyarrow as pa

    words, owners = edges
    columns = {"ends": words[::2], "entry": words[1::2], "owner": owners}
    _write(pa.table({key: pa.array(value) for key, value in columns.items()}), folder, name)
    _write(pa.table({"out": pa.array(outs)}), folder, _outs_name(name))


def read_edges(folder: str, name: str) -> tuple[Edges, NDArray[np.uint32]]:
    """Reads the edges and the number that leave each state; raises OSError."""
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
    """Reads the rows, parents' indices and parents' parts of the states in a file; raises OSError."""
    from pyarrow import parquet

    table = parquet.read_table(os.path.join(folder, name)).combine_chunks()
    column = table.column("row").chunk(0)
    rows = np.frombuffer(column.buffers()[1], np.int64, offset=0)[: len(column) * word_count]
    parents = table.column("parent").to_numpy().astype(np.uint32)
    owners = table.column("owner").to_numpy().astype(np.uint16)
    return np.ascontiguousarray(rows), parents, owners


def write_manifest(folder: str, manifest: Manifest) -> None:
    """Completes the checkpoint; raises EnvironmentFailure if the manifest cannot be written."""
    path = Path(folder) / MANIFEST
    try:
        path.with_suffix(".tmp").write_bytes(encode(manifest))
        os.replace(path.with_suffix(".tmp"), path)
    except OSError as error:
        raise EnvironmentFailure(
            f"the checkpoint cannot be written: {error}",
            "free disk space, or give --checkpoint another folder",
        ) from error


def is_saved(folder: str) -> bool:
    """Whether the folder contains a checkpoint of any search."""
    return any(Path(folder).glob(f"*/{MANIFEST}"))


def make_folder(folder: str, name: str) -> str:
    """Returns the folder for the checkpoints of one search of a model; creates it if necessary."""
    path = Path(folder) / name
    path.mkdir(parents=True, exist_ok=True)
    return str(path)


def claim_folder(folder: str, digest: str) -> None:
    """Records which model the folder's checkpoints belong to; raises ModelError if it is another one."""
    path = Path(folder) / CLAIM
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(digest, encoding="utf-8")
        found = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentFailure(f"checkpoints cannot be written to {folder}: {error}") from error
    if found != digest:
        raise ModelError(
            f"the checkpoint in {folder} belongs to another model or to other properties",
            hint="resume with the same model, constants and properties, or use another folder",
        )


def read_manifest(folder: str, digest: str, part_count: int) -> Manifest | None:
    """Returns the checkpoint in the folder, or None.

    Raises ModelError if it belongs to another search, and EnvironmentFailure if it cannot be used.
    """
    path = Path(folder) / MANIFEST
    try:
        manifest = decode(Manifest, path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, MessageError) as error:
        raise EnvironmentFailure(
            f"the checkpoint in {folder} cannot be read: {error}", "start again with an empty folder"
        ) from error
    if manifest.digest != digest:
        raise ModelError(
            f"the checkpoint in {folder} belongs to another model or to other properties",
            hint="resume with the same model, constants and properties, or use another folder",
        )
    if len(manifest.parts) != part_count:
        raise EnvironmentFailure(
            f"the checkpoint in {folder} has {len(manifest.parts)} parts for {part_count} workers",
            f"resume with as many workers, such as --master local[{len(manifest.parts)}]",
        )
    return manifest
