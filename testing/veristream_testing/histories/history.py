"""A history in memory, and what was planted in it."""

from __future__ import annotations

from dataclasses import dataclass

from veristream.history.events import Event
from veristream.history.manifest import Manifest
from veristream.history.verdicts import Anomaly


@dataclass(frozen=True, slots=True)
class History:
    """A manifest with its events, and all anomalies that a checker must find in them.

    `anomalies` is None if it is not known what there is to find.
    """

    manifest: Manifest
    events: tuple[Event, ...]
    anomalies: frozenset[Anomaly] | None = None
