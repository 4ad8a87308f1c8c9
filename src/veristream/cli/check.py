"""`veristream check`: checks the properties of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.checking import Asked, run_check
from veristream.cli.choices import Engine, ExchangeChoice
from veristream.cli.options import (
    CheckpointOption,
    CheckpointSecondsOption,
    ConstantOptions,
    EngineOption,
    ExchangeOption,
    FullTraceOption,
    HashCompactOption,
    HtmlOption,
    JsonOption,
    MasterOption,
    MemoryOption,
    ModelPath,
    OrderOption,
    PartsOption,
    ReductionOption,
    ResumeOption,
    SecondsOption,
    ShortestOption,
    SpillOption,
    StatesOption,
    SymmetryOption,
    WorkersOption,
)
from veristream.ir.property import Fairness
from veristream.languages.stacks import STACK_LIMIT, STACK_MAX
from veristream.search.limits import Limits, Order, SparkOptions

PropertyOptions = Annotated[
    list[str] | None,
    typer.Option("-p", "--property", metavar="NAME", help="Check only this property. May be repeated."),
]
QueriesOption = Annotated[
    Path | None,
    typer.Option(
        "--queries",
        metavar="FILE",
        help="For a model of UPPAAL: check the queries in this file, a .q file or a model in XML, and not"
        " those in or beside the model.",
    ),
]
StackOption = Annotated[
    int | None,
    typer.Option(
        "--max-stack",
        metavar="N",
        min=1,
        max=STACK_LIMIT,
        help="For a model in CSP#: let at most N processes wait behind `;` where a process recurses before"
        f" one. [default: {STACK_MAX}]",
    ),
]
FairnessOption = Annotated[
    Fairness | None,
    typer.Option("--fairness", help="Assume this fairness, overriding what each property declares."),
]


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="For a specification in TLA+: its configuration; by default the file of the same name that"
        " ends in .cfg.",
    ),
]


def check(
    model: ModelPath,
    properties: PropertyOptions = None,
    queries: QueriesOption = None,
    config: ConfigOption = None,
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
    max_stack: StackOption = None,
    symmetry: SymmetryOption = True,
    reduction: ReductionOption = True,
    order: OrderOption = Order.BREADTH,
    hash_compact: HashCompactOption = None,
    shortest: ShortestOption = False,
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
    veristream check gate.xml --queries more.q          check the queries of another file
    veristream check Paxos.tla --config Small.cfg       check what another configuration says
    veristream check queue.net --fairness weak-process  assume that no process is ignored forever
    veristream check queue.net --engine spark --master local[2]
    veristream check queue.net --html queue.html        write a page with the traces drawn
    veristream check queue.net --json | jq '.results[].verdict'

    \b
    Exit code: 0 all properties hold, 1 one is violated, 4 one is unknown and none is violated,
               2 the model or an option is wrong, 3 the environment failed (memory, disk, Spark),
               70 Veristream failed, which is no verdict: please report it.
    """
    options = SparkOptions(master, parts, checkpoint, checkpoint_seconds, spill, exchange=exchange.value)
    bounds = (workers, max_states, max_seconds, max_memory_mib)
    limits = Limits(*bounds, symmetry, reduction, shortest, order=order, hash_bits=hash_compact)
    asked = (model, properties or (), define or (), fairness, engine, options, resume, limits)
    run_check(Asked(*asked, full_trace, as_json, html_page, queries, config, max_stack))
