"""`veristream check`: checks the properties of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from veristream import library
from veristream.cli.failure import exit_of, failures, tell_faults
from veristream.cli.notices import telling
from veristream.cli.options import (
    CheckpointOption,
    CheckpointSecondsOption,
    ConstantOptions,
    Engine,
    EngineOption,
    ExchangeChoice,
    ExchangeOption,
    FullTraceOption,
    HtmlOption,
    JsonOption,
    MasterOption,
    MemoryOption,
    ModelPath,
    PartsOption,
    ResumeOption,
    SecondsOption,
    SpillOption,
    StatesOption,
    SymmetryOption,
    WorkersOption,
    look,
    read_constants,
    read_limits,
    read_spark,
    write_page,
)
from veristream.cli.progress import showing_progress
from veristream.ir.property import Fairness
from veristream.report import html, json, text
from veristream.search.limits import SparkOptions
from veristream.verdict import Result

PropertyOptions = Annotated[
    list[str] | None,
    typer.Option("-p", "--property", metavar="NAME", help="Check only this property. May be repeated."),
]
FairnessOption = Annotated[
    Fairness | None,
    typer.Option("--fairness", help="Assume this fairness, overriding what each property declares."),
]


def check(
    model: ModelPath,
    properties: PropertyOptions = None,
    define: ConstantOptions = None,
    fairness: FairnessOption = None,
    engine: EngineOption = Engine.AUTO,
    master: MasterOption = None,
    parts: PartsOption = None,
    exchange: ExchangeOption = ExchangeChoice.AUTO,
    checkpoint: CheckpointOption = None,
    checkpoint_seconds: CheckpointSecondsOption = 30.0,
    resume: ResumeOption = None,
    spill: SpillOption = None,
    workers: WorkersOption = None,
    max_states: StatesOption = None,
    max_seconds: SecondsOption = None,
    max_memory_mib: MemoryOption = None,
    symmetry: SymmetryOption = True,
    full_trace: FullTraceOption = False,
    as_json: JsonOption = False,
    html_page: HtmlOption = None,
) -> None:
    """Check the properties of a model in every state that it can reach.

    Each property gets a verdict: holds, violated (with a trace that shows it), or unknown (a limit was
    reached first). Ctrl-C stops the search and reports what is known by then. In a timed model, the
    states that are counted are zones: a discrete state together with a set of clock values.

    \b
    veristream check queue.net                          check all properties
    veristream check queue.net -p no_loss -p in_order   check two of them
    veristream check queue.net -D CAPACITY=3            override a constant
    veristream check queue.net --fairness weak-process  assume that no process is ignored forever
    veristream check queue.net --engine spark --master local[2]
    veristream check queue.net --html queue.html        write a page with the traces drawn
    veristream check queue.net --json | jq '.results[].verdict'

    \b
    Exit code: 0 all properties hold, 1 one is violated, 4 one is unknown and none is violated,
               2 the model or an option is wrong, 3 the environment failed (memory, disk, Spark).
    """
    with failures():
        networks = library.load_all(model, read_constants(define))
        options = SparkOptions(master, parts, checkpoint, checkpoint_seconds, spill)
        spark = read_spark(engine, replace(options, exchange=exchange.value), resume)
        with telling() as tell, showing_progress() as report:
            results = library.check(
                networks,
                properties or (),
                fairness=fairness,
                limits=read_limits(workers, max_states, max_seconds, max_memory_mib, symmetry),
                report=report,
                spark=None if spark is None else replace(spark, tell=tell),
            )
        drawn, named = look(full_trace, networks), (str(model), _engine_of(engine, results))
        typer.echo(json.render_check(*named, results) if as_json else text.render_results(results, drawn))
        write_page(html_page, lambda: html.render_results(str(model), results, drawn.clocks))
        tell_faults(results)
        raise typer.Exit(exit_of(results))


def _engine_of(chosen: Engine, results: Sequence[Result]) -> Engine:
    """Returns the engine that finished the search."""
    shared = any(result.effort.spread is not None for result in results)
    return Engine.SPARK if chosen is Engine.SPARK or shared else Engine.LOCAL
