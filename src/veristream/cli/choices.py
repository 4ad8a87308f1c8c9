"""What the options of several verbs mean; `options` declares them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from veristream.cluster import names_cluster
from veristream.errors import EnvironmentFailure, ModelError
from veristream.ir.clocks import list_clocks
from veristream.ir.network import Network
from veristream.report.chart import ASCII, UNICODE
from veristream.report.text import Look
from veristream.search.limits import Limits, SparkOptions


class Engine(StrEnum):
    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


class ExchangeChoice(StrEnum):
    AUTO = "auto"
    SOCKETS = "sockets"
    SHUFFLE = "shuffle"


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
