"""`veristream simulate`: one random run, drawn."""

from __future__ import annotations

import random
from typing import Annotated

import typer

from veristream import library
from veristream.cli.failure import failures
from veristream.cli.options import (
    ConstantOptions,
    FullTraceOption,
    JsonOption,
    ModelPath,
    look,
    read_constants,
)
from veristream.report import json, text

SeedOption = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", min=0, help="The same seed gives the same run; fresh by default."),
]
StepsOption = Annotated[int, typer.Option("--steps", metavar="N", min=0, help="How many steps at most.")]


def simulate(
    model: ModelPath,
    define: ConstantOptions = None,
    seed: SeedOption = None,
    steps: StepsOption = 20,
    full_trace: FullTraceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Draw one random run of a model as a message sequence chart.

    Each step is one of those that are possible, each as likely as the others. The run ends early
    where no step is possible.

    \b
    veristream simulate queue.net                    some run of 20 steps
    veristream simulate queue.net --seed 7           the same run every time
    veristream simulate queue.net --steps 200 --full-trace
    """
    with failures():
        network = library.load(model, read_constants(define))
        chosen = random.randrange(2**31) if seed is None else seed
        trace = library.simulate(network, seed=chosen, steps=steps)
        if as_json:
            typer.echo(json.render_run(str(model), chosen, trace))
            return
        count = len(trace.steps) - 1
        ending = ", then no step is possible" if count < steps else ""
        title = f"{model}: {count} step{'' if count == 1 else 's'}{ending} (seed {chosen})"
        typer.echo(text.render_run(title, trace, look(full_trace)))
