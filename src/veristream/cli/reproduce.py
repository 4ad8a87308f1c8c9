"""`veristream reproduce`: known models against what is known of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from veristream import library
from veristream.cli.failure import Exit, failures, faults_of, tell_faults
from veristream.cli.notices import telling
from veristream.cli.options import (
    Engine,
    EngineOption,
    HtmlOption,
    JsonOption,
    MasterOption,
    MemoryOption,
    PartsOption,
    SecondsOption,
    SpillOption,
    StatesOption,
    WorkersOption,
    look,
    read_limits,
    read_spark,
    write_page,
)
from veristream.cli.progress import showing_progress
from veristream.report import html, json, text
from veristream.search.limits import SparkOptions

NameArguments = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these models; all by default.")
]
ModelsOption = Annotated[
    Path | None,
    typer.Option(
        "--models",
        metavar="FOLDER",
        help="Where the models are. By default ./models if it has known models, else those that come with"
        " Veristream.",
    ),
]


def reproduce(
    names: NameArguments = None,
    models: ModelsOption = None,
    engine: EngineOption = Engine.AUTO,
    master: MasterOption = None,
    parts: PartsOption = None,
    spill: SpillOption = None,
    workers: WorkersOption = 1,
    max_states: StatesOption = None,
    max_seconds: SecondsOption = None,
    max_memory_mib: MemoryOption = None,
    as_json: JsonOption = False,
    html_page: HtmlOption = None,
) -> None:
    """Check known models and put the expected verdicts beside ours.

    A known model is a folder with a model and an expected.toml: where it was published, and for each
    property the verdict and, where known, the number of states.

    \b
    veristream reproduce                       every model
    veristream reproduce philosophers          one of them
    veristream reproduce --models ../models    from another place
    veristream reproduce --html known.html     one page, with a chart of every trace
    veristream reproduce --engine spark --master local[2]

    Exit code: 0 only if every verdict is the expected one.
    """
    with failures():
        spark = read_spark(engine, SparkOptions(master, parts, spill=spill))
        with telling() as tell, showing_progress() as report:
            reproductions = library.reproduce(
                names or (),
                models=models,
                limits=read_limits(workers, max_states, max_seconds, max_memory_mib),
                report=report,
                spark=None if spark is None else replace(spark, tell=tell),
            )
        if as_json:
            typer.echo(json.render_reproductions(reproductions))
        else:
            typer.echo(text.render_reproductions(reproductions, look(full_trace=False)))
        write_page(html_page, lambda: html.render_reproductions(reproductions))
        results = [outcome.result for one in reproductions for outcome in one.outcomes]
        tell_faults(results)
        if all(one.as_expected for one in reproductions):
            return
        raise typer.Exit(Exit.MODEL_WRONG if faults_of(results) else Exit.VIOLATED)
