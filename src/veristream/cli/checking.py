"""What `veristream check` does; `check` declares its options, and `direct` calls it without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from veristream import library
from veristream.cli.choices import Engine, look, read_constants, read_spark, write_page
from veristream.cli.failure import exit_of, failures, tell_faults
from veristream.cli.notices import telling
from veristream.cli.output import echo
from veristream.cli.progress import showing_progress
from veristream.ir.property import Fairness
from veristream.search.limits import Limits, SparkOptions
from veristream.verdict import Result


@dataclass(frozen=True, slots=True)
class Asked:
    """A check with its options."""

    model: Path
    properties: Sequence[str] = ()
    define: Sequence[str] = ()
    fairness: Fairness | None = None
    engine: Engine = Engine.AUTO
    spark: SparkOptions = field(default_factory=SparkOptions)
    resume: str | None = None
    limits: Limits = field(default_factory=lambda: Limits(reduction=True))
    full_trace: bool = False
    as_json: bool = False
    html_page: Path | None = None
    queries: Path | None = None
    stack_max: int | None = None


def run_check(asked: Asked) -> None:
    """Checks the model, prints the results, and exits with the code that says what they are."""
    with failures():
        constants = read_constants(asked.define)
        networks = library.load_all(
            asked.model, constants, asked.properties, asked.queries, asked.stack_max
        )
        spark = read_spark(asked.engine, asked.spark, asked.resume)
        with telling() as tell, showing_progress() as report:
            results = library.check(
                networks,
                asked.properties,
                fairness=asked.fairness,
                limits=asked.limits,
                report=report,
                spark=None if spark is None else replace(spark, tell=tell),
            )
        drawn, name = look(asked.full_trace, networks), str(asked.model)
        page = ""
        if asked.html_page is not None:
            from veristream.report import html

            page = html.render_results(name, results, drawn.clocks)
        if asked.as_json:
            from veristream.report import json

            echo(json.render_check(name, _engine_of(asked.engine, results), results))
        else:
            from veristream.report import text

            echo(text.render_results(results, drawn))
        write_page(asked.html_page, lambda: page)
        tell_faults(results)
        raise SystemExit(int(exit_of(results)))


def _engine_of(chosen: Engine, results: Sequence[Result]) -> Engine:
    """Returns the engine that finished the search."""
    shared = any(result.effort.spread is not None for result in results)
    return Engine.SPARK if chosen is Engine.SPARK or shared else Engine.LOCAL
