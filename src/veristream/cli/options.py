"""The options that several verbs share."""

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
from veristream.search.limits import Limits, SparkOptions
from veristream.spark import names_cluster


class Engine(StrEnum):
    """Where a search runs."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


class ExchangeChoice(StrEnum):
    """How workers on Spark exchange states."""

    AUTO = "auto"
    SOCKETS = "sockets"
    SHUFFLE = "shuffle"


ModelPath = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The model, a .csp, .net, .py, .xml or .xta file.")
]
ConstantOptions = Annotated[
    list[str] | None,
    typer.Option(
        "-D",
        "--define",
        metavar="NAME=VALUE",
        help="Give a constant of the model another value. May be repeated.",
    ),
]
EngineOption = Annotated[
    Engine,
    typer.Option(
        "--engine",
        help="Where the search runs. By default here, then on Spark once the memory here is nearly used up,"
        " if --master or Spark's own settings name a cluster.",
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="The Spark cluster to explore on, such as local[2] or spark://HOST:7077.",
    ),
]
PartsOption = Annotated[
    int | None,
    typer.Option(
        "--parts", metavar="N", min=1, max=4096, help="With --engine spark: workers. By default all cores."
    ),
]
ExchangeOption = Annotated[
    ExchangeChoice,
    typer.Option(
        "--exchange",
        help="With --engine spark: how workers exchange states. By sockets of their own, for which all must"
        " run at once and reach each other; or by Spark's shuffle, which needs neither, and a job for every"
        " level. By default sockets, and the shuffle where the cluster refuses these.",
    ),
]
CheckpointOption = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="With --engine spark: save the search here now and then; all machines must see the folder.",
    ),
]
CheckpointSecondsOption = Annotated[
    float,
    typer.Option(
        "--checkpoint-seconds", metavar="S", min=0, help="How often --checkpoint saves, after a level."
    ),
]
ResumeOption = Annotated[
    str | None,
    typer.Option("--resume", metavar="DIR", help="With --engine spark: go on from a checkpoint."),
]
SpillOption = Annotated[
    str | None,
    typer.Option(
        "--spill", metavar="DIR", help="With --engine spark: keep states on this disk, not in memory."
    ),
]
WorkersOption = Annotated[
    int, typer.Option("--workers", metavar="N", min=1, max=256, help="How many cores search.")
]
StatesOption = Annotated[
    int | None,
    typer.Option("--max-states", metavar="N", min=1, help="Give up, as unknown, at so many states."),
]
SecondsOption = Annotated[
    float | None,
    typer.Option("--max-seconds", metavar="S", min=0, help="Give up, as unknown, after so long."),
]
MemoryOption = Annotated[
    int | None,
    typer.Option(
        "--max-memory-mib",
        metavar="MIB",
        min=1,
        help="Give up, as unknown, at so much memory. By default a share of the machine's.",
    ),
]
SymmetryOption = Annotated[
    bool,
    typer.Option(
        "--symmetry/--no-symmetry",
        help="Of states that differ only in which symmetric instance is which, explore one.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", help="Also write one HTML page, with traces as message sequence charts."
    ),
]
FullTraceOption = Annotated[
    bool,
    typer.Option("--full-trace", help="Draw long traces whole, not only their ends, and long values too."),
]


def read_constants(texts: Sequence[str] | None) -> dict[str, int]:
    """The constants of `-D`; a value is a whole number, true or false."""
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
            f"-D {text}: {value or 'nothing'} is no value of a constant",
            hint="a whole number, true or false",
        ) from None


def read_limits(
    workers: int,
    states: int | None,
    seconds: float | None,
    memory_mib: int | None,
    symmetry: bool = True,
) -> Limits:
    """The bounds that the options name."""
    return Limits(workers, states, seconds, memory_mib, symmetry)


def read_spark(engine: Engine, options: SparkOptions, resume: str | None = None) -> SparkOptions | None:
    """The cluster that the options or Spark's own settings name; None where the search stays here."""
    is_named = options.master is not None or names_cluster(os.environ)
    if engine is Engine.LOCAL or (engine is Engine.AUTO and not is_named):
        named = {"--master": options.master, "--parts": options.parts, "--resume": resume}
        named |= {"--checkpoint": options.checkpoint, "--spill": options.spill}
        named["--exchange"] = None if options.exchange == "auto" else options.exchange
        for option, value in named.items():
            if value is not None:
                raise ModelError(
                    f"{option} is for Spark", hint="say --engine spark --master URL, or leave it out"
                )
        return None
    if resume is not None and not _is_saved(resume):
        raise ModelError(
            f"there is no checkpoint in {resume}", hint="--checkpoint DIR makes one; give the same folder"
        )
    options = replace(options, checkpoint=resume or options.checkpoint)
    return replace(options, start_states=None) if engine is Engine.AUTO else options


def _is_saved(folder: str) -> bool:
    from veristream.search.shared.checkpoint import is_saved

    return is_saved(folder)


def write_page(path: Path | None, render: Callable[[], str]) -> None:
    """Writes the page if `--html` asks for one; raises EnvironmentFailure where that is not possible."""
    if path is None:
        return
    try:
        path.write_text(render(), encoding="utf-8")
    except OSError as error:
        raise EnvironmentFailure(
            f"{path} cannot be written: {error.strerror}", hint="name a file in a folder that is there"
        ) from error


def look(full_trace: bool, networks: Sequence[Network] = ()) -> Look:
    """How to draw traces of these networks on this stdout: plain characters where it has no others; colour
    and no line longer than the screen only on a terminal.
    """
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    marks = UNICODE if encoding.startswith("utf") else ASCII
    clocks = frozenset(name for network in networks for name in list_clocks(network) if name)
    if not sys.stdout.isatty():
        return Look(marks, full_trace=full_trace, clocks=clocks)
    return Look(marks, True, full_trace, shutil.get_terminal_size().columns, clocks)
