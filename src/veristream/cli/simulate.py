"""`veristream simulate`: draws runs of a model."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from veristream import library
from veristream.cli.choices import look, read_constants
from veristream.cli.failure import failures
from veristream.cli.options import (
    ConstantOptions,
    FullTraceOption,
    JsonOption,
)
from veristream.cli.progress import showing_progress
from veristream.expected import RUN_STEPS, KnownRun, read_known, read_runs
from veristream.report import json, text
from veristream.verdict import Trace

ModelOrFolder = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="The model: a .csp, .net, .py, .ta, .xml or .xta file, or the folder of a known model.",
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", min=0, help="Repeat the run that has this seed. [default: random]"),
]
StepsOption = Annotated[
    int | None,
    typer.Option("--steps", metavar="N", min=0, help=f"Stop after N steps. [default: {RUN_STEPS}]"),
]


def simulate(
    model: ModelOrFolder,
    define: ConstantOptions = None,
    seed: SeedOption = None,
    steps: StepsOption = None,
    full_trace: FullTraceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Draw one random run of a model as a message sequence chart.

    Each step is chosen at random, with equal probability, among the actions that are enabled. In a timed
    model, actions that become enabled later take part too, each at its earliest time. The run ends early
    if no action is enabled.

    Given a folder, the command draws the runs that its expected.toml lists in [[simulate]] tables, such
    as the trace to a goal. If it lists none, the command draws a random run of the folder's first model.

    \b
    veristream simulate queue.net                    a random run of 20 steps
    veristream simulate queue.net --seed 7           the same run every time
    veristream simulate queue.net --steps 200 --full-trace
    veristream simulate models/queue                 the runs that expected.toml lists
    """
    with failures():
        constants = read_constants(define)
        runs = read_runs(model) if model.is_dir() else ()
        if runs:
            _draw_known(model, [_adapt(run, constants, seed, steps) for run in runs], full_trace, as_json)
            return
        chosen = random.randrange(2**31) if seed is None else seed
        path = model
        if model.is_dir():
            first = read_known(model)[0]
            path, constants = first.path, {**first.constants, **constants}
        run = KnownRun("", path, constants, None, chosen, RUN_STEPS if steps is None else steps)
        _draw_random(run, full_trace, as_json)


def _adapt(run: KnownRun, constants: Mapping[str, int], seed: int | None, steps: int | None) -> KnownRun:
    """Applies the options to a run of the folder."""
    return replace(
        run,
        constants={**run.constants, **constants},
        seed=run.seed if seed is None else seed,
        steps=run.steps if steps is None else steps,
    )


def _draw_random(run: KnownRun, full_trace: bool, as_json: bool) -> None:
    network = library.load(run.path, run.constants)
    trace = library.follow(run, [network])
    if as_json:
        typer.echo(json.render_run(str(run.path), run.seed, trace))
        return
    title = f"{run.path}: {text.random_length(run, trace)} (seed {run.seed})"
    typer.echo(text.render_run(title, trace, look(full_trace, [network])))


def _draw_known(folder: Path, runs: Sequence[KnownRun], full_trace: bool, as_json: bool) -> None:
    """Draws each run as soon as it is found; JSON is one document with all of them."""
    found: list[tuple[KnownRun, Trace]] = []
    for run in runs:
        networks = library.load_all(run.path, run.constants)
        with showing_progress() as report:
            trace = library.follow(run, networks, report)
        if not as_json:
            gap = "\n" if found else ""
            typer.echo(gap + text.render_known_run(run, trace, look(full_trace, networks)))
        found.append((run, trace))
    if as_json:
        typer.echo(json.render_known_runs(str(folder), found))
