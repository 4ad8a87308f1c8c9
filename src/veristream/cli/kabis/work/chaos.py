"""Runs chaos trials and prints them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import typer

from veristream.cli.failure import Exit
from veristream.cli.kabis.table import draw_table
from veristream.errors import ModelError
from veristream.kabis.cluster.chaos import TRIED, Fault, Trial, run_trials
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ClusterFolder


def run(faults: Sequence[str], events: int, parties: int, data: Path | None, *, as_json: bool) -> None:
    """Runs the trials on a new cluster, prints them, and exits with 1 if one had a problem."""
    chosen = [_read_fault(text) for text in faults] or list(Fault)
    with ExitStack() as stack:
        if data is None:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kabis-chaos-")))
        elif ClusterFolder(data).exists():
            raise ModelError(f"{data} already has a cluster", hint="chaos needs a new folder")
        cluster = stack.enter_context(Cluster(ClusterFolder(data)))
        genesis = cluster.create(parties)
        if not genesis.faults:
            raise ModelError("a single validator tolerates no fault", hint="use --parties 4 or more")
        cluster.start()
        trials = run_trials(cluster, chosen, events, _tell)
    if as_json:
        typer.echo(json.dumps([asdict(trial) for trial in trials], indent=2))
    else:
        typer.echo(render(trials))
    if any(trial.problems for trial in trials):
        raise typer.Exit(Exit.VIOLATED)


def _read_fault(text: str) -> Fault:
    try:
        return Fault(text)
    except ValueError:
        raise ModelError(f"there is no fault {text!r}", hint=f"choose one of {', '.join(Fault)}") from None


def _tell(trial: Trial) -> None:
    outcome = "; ".join(trial.problems) or "nothing lost"
    typer.echo(f"{trial.fault.value}: {TRIED[trial.fault]}: {outcome} ({trial.seconds:.1f} s)", err=True)


def render(trials: Sequence[Trial]) -> str:
    """Renders the trials as a table."""
    head = ("fault", "acknowledged", "delivered", "what was noticed", "outcome")
    rows = [
        (
            trial.fault.value,
            str(trial.acknowledged),
            str(trial.delivered),
            "; ".join(trial.evidence) or "-",
            "; ".join(trial.problems) or "nothing lost",
        )
        for trial in trials
    ]
    lost = sum(bool(trial.problems) for trial in trials)
    verdict = (
        f"{lost} of {len(trials)} faults caused problems"
        if lost
        else ("every acknowledged event was delivered once, in order, as it was pushed")
    )
    return f"{draw_table(head, rows)}\n\n{verdict}"
