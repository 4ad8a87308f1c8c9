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
from veristream.errors import ModelError
from veristream.ir.network import Network
from veristream.ir.property import Fairness
from veristream.search.limits import Limits, Order, SparkOptions
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
    config: Path | None = None
    stack_max: int | None = None


def run_check(asked: Asked) -> None:
    """Checks the model, prints the results, and exits with the code that says what they are."""
    with failures():
        networks, results = _specification(asked) if asked.model.suffix == ".tla" else _networks(asked)
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


def _networks(asked: Asked) -> tuple[Sequence[Network], Sequence[Result]]:
    """The models of a file, and the results."""
    if asked.config is not None:
        raise ModelError("--config is for specifications in TLA+", hint="remove it")
    networks = library.load_all(
        asked.model, read_constants(asked.define), asked.properties, asked.queries, asked.stack_max
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
    return networks, results


def _specification(asked: Asked) -> tuple[Sequence[Network], Sequence[Result]]:
    """The results of a specification in TLA+, which is no Network."""
    unsupported = {
        "--engine spark": asked.engine is Engine.SPARK,
        "--order depth": asked.limits.order is not Order.BREADTH,
        "--hash-compact": asked.limits.hash_bits is not None,
        "--fairness": asked.fairness is not None,
        "--queries": asked.queries is not None,
        "--max-stack": asked.stack_max is not None,
        "--resume": asked.resume is not None,
    }
    for option, is_given in unsupported.items():
        if is_given:
            raise ModelError(f"{option} does not apply to TLA+", hint="remove it")
    with showing_progress() as report:
        results = library.check_specification(
            asked.model,
            asked.properties,
            config=asked.config,
            constants=read_constants(asked.define),
            limits=asked.limits,
            report=report,
        )
    return (), results


def _engine_of(chosen: Engine, results: Sequence[Result]) -> Engine:
    """Returns the engine that finished the search."""
    shared = any(result.effort.spread is not None for result in results)
    return Engine.SPARK if chosen is Engine.SPARK or shared else Engine.LOCAL
