"""`veristream reproduce`: compares our verdicts on known models with the published ones, or with what real
brokers do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from veristream import library
from veristream.cli.choices import Engine, look, read_limits, read_spark, write_page
from veristream.cli.failure import Exit, exit_of, failures, tell_faults
from veristream.cli.history.real import Asked, run_real
from veristream.cli.notices import telling
from veristream.cli.options import (
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
)
from veristream.cli.progress import showing_progress
from veristream.expected import Reproduction
from veristream.report import html, json, text
from veristream.search.limits import SparkOptions

NameArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="The models to check; with --real, the brokers. [default: all]"),
]
ModelsOption = Annotated[
    Path | None,
    typer.Option(
        "--models",
        metavar="FOLDER",
        help="The folder of known models."
        " [default: ./models if it has known models, else those that come with Veristream]",
    ),
]
RealOption = Annotated[
    bool,
    typer.Option(
        "--real",
        help="Run kafka, rabbitmq and nsq on this machine, with faults, and a Kafka with kerberos, with"
        " intruders, and compare what they did with the verdicts of the models; replay: make"
        " counterexamples happen.",
    ),
]
TrialOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--trial",
        metavar="TRIAL",
        help="With --real: only this configuration, such as acks-1. May be repeated.",
    ),
]
KeepOption = Annotated[
    Path | None,
    typer.Option(
        "--keep",
        metavar="FOLDER",
        help="With --real: keep the recordings in this folder, which must be empty or new.",
    ),
]

OF_SEARCHES = (
    "engine", "master", "parts", "spill", "workers", "max_states", "max_seconds", "max_memory_mib",
)  # fmt: skip
"""The options that mean nothing to real brokers."""


def reproduce(
    context: typer.Context,
    names: NameArguments = None,
    real: RealOption = False,
    trial: TrialOptions = None,
    keep: KeepOption = None,
    models: ModelsOption = None,
    engine: EngineOption = Engine.AUTO,
    master: MasterOption = None,
    parts: PartsOption = None,
    spill: SpillOption = None,
    workers: WorkersOption = None,
    max_states: StatesOption = None,
    max_seconds: SecondsOption = None,
    max_memory_mib: MemoryOption = None,
    as_json: JsonOption = False,
    html_page: HtmlOption = None,
) -> None:
    """Check known models and compare the verdicts with the expected ones.

    A known model is a folder with a model and an expected.toml, which says where the model was published
    and lists the expected verdict of each property, with the number of states if it is known.

    With --real, brokers run under the settings of the models instead: each configuration is a trial, whose
    recording is audited; with kerberos, intruders attack it; with replay, real brokers are steered through
    runs of models.

    \b
    veristream reproduce                       check every known model
    veristream reproduce philosophers          check one of them
    veristream reproduce --models ../models    look for models in another folder
    veristream reproduce --html known.html     write a page with every trace drawn
    veristream reproduce --engine spark --master local[2]
    veristream reproduce --real nsq            run real brokers under the settings of the models
    veristream reproduce --real kerberos       attack a Kafka with and without Kerberos
    veristream reproduce --real replay         make counterexamples happen on real brokers
    veristream reproduce --real kafka --trial acks-1 --trial acks-all --html kafka.html

    Exit code: 0 if all verdicts are as expected, 1 if one differs (with --real: and the trial does not
    explain it), 2 if a model or an option is wrong, 3 if the environment failed.
    """
    if real or trial or keep is not None:
        asked = Asked(real, names or (), trial or (), keep, models, as_json, html_page)
        run_real(asked, [name for name in OF_SEARCHES if _is_given(context, name)])
        return
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
        _show(reproductions, as_json, html_page)


def _show(reproductions: Sequence[Reproduction], as_json: bool, html_page: Path | None) -> None:
    """Prints the verdicts and writes the page; exits with a code unless all are as expected."""
    if as_json:
        typer.echo(json.render_reproductions(reproductions))
    else:
        typer.echo(text.render_reproductions(reproductions, look(full_trace=False)))
    write_page(html_page, lambda: html.render_reproductions(reproductions))
    results = [outcome.result for one in reproductions for outcome in one.outcomes]
    tell_faults(results)
    if not all(one.as_expected for one in reproductions):
        raise typer.Exit(Exit.MODEL_WRONG if exit_of(results) is Exit.MODEL_WRONG else Exit.VIOLATED)


def _is_given(context: typer.Context, name: str) -> bool:
    """Whether an option was given, be it with its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"
