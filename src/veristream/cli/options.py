"""Options shared by several verbs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from veristream.errors import EnvironmentFailure, ModelError
from veristream.ir.clocks import list_clocks
from veristream.ir.network import Network
from veristream.report.chart import ASCII, UNICODE
from veristream.report.text import Look
from veristream.search.limits import WORKERS_MAX, Limits, SparkOptions
from veristream.spark import names_cluster


class Engine(StrEnum):
    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


class ExchangeChoice(StrEnum):
    AUTO = "auto"
    SOCKETS = "sockets"
    SHUFFLE = "shuffle"


ModelPath = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The model: a .csp, .net, .py, .xml or .xta file.")
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
        help="Number of cores that explore states. [default: all that it may use, in large searches]",
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


def read_constants(texts: Sequence[str] | None) -> dict[str, int]:
    """Parses `-D NAME=VALUE`; a value is an integer, true or false."""
    constants: dict[str, int] = {}
    for text in texts or ():
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name.isidentifier():
            raise ModelError(
                f"-D {text} does not define a constant", hint="write -D NAME=VALUE, as in -D N=5"
            )
        constants[name] = _read_value(text, value)
    return constants


def _read_value(text: str, value: str) -> int:
    words = {"true": 1, "false": 0}
    if value in words:
        return words[value]
    try:
        return int(value)
    except ValueError:
        raise ModelError(
            f"-D {text}: {value or 'nothing'} is not a constant's value",
            hint="write an integer, true or false",
        ) from None


def read_limits(
    workers: int | None,
    states: int | None,
    seconds: float | None,
    memory_mib: int | None,
    symmetry: bool = True,
) -> Limits:
    """Builds the limits from the options."""
    return Limits(workers, states, seconds, memory_mib, symmetry)


def read_spark(engine: Engine, options: SparkOptions, resume: str | None = None) -> SparkOptions | None:
    """Returns the Spark options, or None if the search runs on this machine only; raises ModelError."""
    is_named = options.master is not None or names_cluster(os.environ)
    if engine is Engine.LOCAL or (engine is Engine.AUTO and not is_named):
        named = {"--master": options.master, "--parts": options.parts, "--resume": resume}
        named |= {"--checkpoint": options.checkpoint, "--spill": options.spill}
        named["--exchange"] = None if options.exchange == "auto" else options.exchange
        for option, value in named.items():
            if value is not None:
                raise ModelError(
                    f"{option} needs Spark", hint="add --engine spark --master URL, or leave the option out"
                )
        return None
    if resume is not None and not _is_saved(resume):
        raise ModelError(
            f"there is no checkpoint in {resume}", hint="name the folder that was given to --checkpoint"
        )
    options = replace(options, checkpoint=resume or options.checkpoint)
    return replace(options, start_states=None) if engine is Engine.AUTO else options


def _is_saved(folder: str) -> bool:
    from veristream.search.shared.checkpoint import is_saved

    return is_saved(folder)


def write_page(path: Path | None, render: Callable[[], str]) -> None:
    """Writes the page to `path` unless it is None; raises EnvironmentFailure if it cannot be written."""
    if path is None:
        return
    try:
        path.write_text(render(), encoding="utf-8")
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write {path}: {error.strerror}", hint="choose a file in an existing, writable folder"
        ) from error


def look(full_trace: bool, networks: Sequence[Network] = ()) -> Look:
    """Returns how to draw traces of these networks on stdout.

    ASCII unless stdout takes UTF-8; on a terminal in colour, with lines cut to its width.
    """
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    marks = UNICODE if encoding.startswith("utf") else ASCII
    clocks = frozenset(name for network in networks for name in list_clocks(network) if name)
    if not sys.stdout.isatty():
        return Look(marks, full_trace=full_trace, clocks=clocks)
    return Look(marks, True, full_trace, shutil.get_terminal_size().columns, clocks)
