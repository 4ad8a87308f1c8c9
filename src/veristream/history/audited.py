"""The result of an audit: a history, what was found of each property, and what happened over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from veristream.history.manifest import Manifest
from veristream.history.verdicts import Anomaly, Judgement


@dataclass(frozen=True, slots=True)
class Moment:
    """A span of a recording: its beginning, and how many messages were acknowledged and received."""

    begin_ns: int
    acknowledged: int
    received: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """A recording in spans of equal length; empty if nothing happened in it."""

    span_ns: int
    moments: tuple[Moment, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    """A history, as it was named, with the number of its events and the judgements in the order asked for.

    `timeline` is None unless it was asked for. `attributions` says why messages of witnesses are lost, from
    the logs of brokers; it is None unless they were given.
    """

    history: str
    manifest: Manifest
    events: int
    judgements: tuple[Judgement, ...]
    timeline: Timeline | None = None
    attributions: Mapping[Anomaly, str] | None = None
