"""Runs trials: records each on real brokers, audits its history, and compares it with the models."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from pathlib import Path
from typing import Protocol

from veristream.expected import KnownModel, find_known
from veristream.history.audited import Audit
from veristream.history.properties import Property
from veristream.known import find_shipped
from veristream.trials.comparison import Tried, compare
from veristream.trials.trial import Trial

Tell = Callable[[Trial, str], None]
"""Is told of each trial what is done for it."""


class Stage(Protocol):
    """Running brokers of one kind, which trials share where that is sound."""

    def record(self, trial: Trial, history: Path) -> None:
        """Runs the trial's workload with its faults, and writes what clients saw as a history."""


Opened = AbstractContextManager[Stage]
Open = Callable[[str, Path], Opened]
"""Opens the stage of a broker, whose nodes have their data in a folder; they end when it is closed."""

Auditor = Callable[[Path, Sequence[Property]], Audit]


def find_models(models: Path | None = None) -> Mapping[str, KnownModel]:
    """Returns the known models by name."""
    return {one.name: one for one in find_known(find_shipped() if models is None else models)}


def run(
    trials: Sequence[Trial],
    folder: Path,
    known: Mapping[str, KnownModel],
    open_stage: Open,
    audit: Auditor,
    tell: Tell = lambda trial, what: None,
) -> Generator[Tried, None, None]:
    """Yields each trial once it was run; its history is then in `folder/histories/BROKER-NAME`."""
    for broker, group in groupby(trials, lambda one: one.broker):
        with open_stage(broker, folder / "brokers" / broker) as stage:
            for trial in group:
                history = folder / "histories" / f"{broker}-{trial.name}"
                tell(trial, "recording")
                stage.record(trial, history)
                tell(trial, "auditing")
                yield compare(trial, audit(history, tuple(Property)), known)
