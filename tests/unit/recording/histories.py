"""What was recorded, read back strictly."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from veristream.history.events import Event
from veristream.history.manifest import Manifest
from veristream.history.store.reader import read_events, read_manifest


def read_back(folder: Path) -> tuple[Manifest, list[Event]]:
    """Returns the manifest and the events, by process and index, whose times must not decrease."""
    found = sorted(read_events(folder), key=lambda each: (each.process, each.index))
    for one, next_ in pairwise(found):
        if one.process == next_.process:
            assert next_.index == one.index + 1
            assert next_.time_ns >= one.time_ns
        else:
            assert next_.index == 0
    return read_manifest(folder), found
