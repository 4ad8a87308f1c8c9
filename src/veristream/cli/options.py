"""Options shared by several verbs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.choices import Engine, ExchangeChoice
from veristream.search.limits import HASH_BITS_MAX, HASH_BITS_MIN, WORKERS_MAX, Order

ModelPath = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="The model: a .csp, .net, .py, .ta, .tla, .xml or .xta file."),
]
ConstantOptions = Annotated[
    list[str] | None,
    typer.Option(
        "-D",
        "--define",
        metavar="NAME=VALUE",
        help="Override a constant of the model. May be repeated.",
    ),
]
EngineOption = Annotated[
    Engine,
    typer.Option(
        "--engine",
        help="Where the search runs. auto starts on this machine and moves to Spark when memory runs short,"
        " if --master or Spark's own configuration names a cluster.",
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="The Spark cluster to search on, such as local[2] or spark://HOST:7077.",
    ),
]
PartsOption = Annotated[
    int | None,
    typer.Option(
        "--parts", metavar="N", min=1, max=4096, help="With Spark: number of workers. [default: all cores]"
    ),
]
ExchangeOption = Annotated[
    ExchangeChoice,
    typer.Option(
        "--exchange",
        help="With Spark: how workers exchange states. sockets is faster, but all workers must run at the"
        " same time and reach each other; shuffle has no such needs, but runs one Spark job per level."
        " auto tries sockets and falls back to shuffle.",
    ),
]
CheckpointOption = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="With Spark: save the search to this folder from time to time; all machines must share it.",
    ),
]
CheckpointSecondsOption = Annotated[
    float,
    typer.Option(
        "--checkpoint-seconds",
        metavar="S",
        min=0,
        help="Least time between checkpoints; each is taken after a level.",
    ),
]
ResumeOption = Annotated[
    str | None,
    typer.Option(
        "--resume", metavar="DIR", help="With Spark: continue from the checkpoint in this folder."
    ),
]
SpillOption = Annotated[
    str | None,
    typer.Option(
        "--spill", metavar="DIR", help="With Spark: keep states in this folder instead of in memory."
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        max=WORKERS_MAX,
        help="Number of cores that search. [default: all that it may use, in large searches]",
    ),
]
StatesOption = Annotated[
    int | None,
    typer.Option(
        "--max-states",
        metavar="N",
        min=1,
        help="Stop after N states; undecided properties are reported as unknown.",
    ),
]
SecondsOption = Annotated[
    float | None,
    typer.Option(
        "--max-seconds",
        metavar="S",
        min=0,
        help="Stop after S seconds; undecided properties are reported as unknown.",
    ),
]
MemoryOption = Annotated[
    int | None,
    typer.Option(
        "--max-memory-mib",
        metavar="MIB",
        min=1,
        help="Stop at this much memory; undecided properties are reported as unknown."
        " [default: a share of this machine's memory]",
    ),
]
SymmetryOption = Annotated[
    bool,
    typer.Option(
        "--symmetry/--no-symmetry",
        help="Explore one of several states that differ only by a permutation of symmetric instances.",
    ),
]
ReductionOption = Annotated[
    bool,
    typer.Option(
        "--reduction/--no-reduction",
        help="Explore fewer interleavings of independent actions where no verdict depends on it.",
    ),
]
OrderOption = Annotated[
    Order,
    typer.Option(
        "--order",
        help="How to search for safety properties of untimed models. depth follows each run to its end"
        " before it tries another: it may find a goal that lies deep after few states. It uses one worker"
        " and no reduction, and shortens the traces that it finds.",
    ),
]
HashCompactOption = Annotated[
    int | None,
    typer.Option(
        "--hash-compact",
        metavar="BITS",
        help=f"Keep only a hash of BITS bits ({HASH_BITS_MIN} to {HASH_BITS_MAX}) of each visited state, to"
        " search for safety properties of untimed models in less memory. States may be omitted: a verdict"
        " that relies on all states says how probable that is; a trace is a proof. It uses one worker and"
        " no reduction.",
    ),
]
ShortestOption = Annotated[
    bool,
    typer.Option(
        "--shortest",
        help="Where a trace may not be the shortest, search again breadth-first and without reduction.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")]
HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", help="Also write an HTML page with traces as message sequence charts."
    ),
]
FullTraceOption = Annotated[
    bool,
    typer.Option("--full-trace", help="Draw every step of a long trace, and long values in full."),
]
