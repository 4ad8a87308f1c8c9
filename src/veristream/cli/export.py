"""`veristream export`: writes a model for another checker, to cross-check our verdicts."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from veristream import library
from veristream.cli.choices import read_constants
from veristream.cli.failure import failures
from veristream.cli.options import ConstantOptions, ModelPath
from veristream.errors import EnvironmentFailure, ModelError


class Target(StrEnum):
    PROMELA = "promela"
    TLA = "tla"


TargetOption = Annotated[
    Target, typer.Option("--to", help="Output language: promela for SPIN, tla for TLC.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write to this file instead of stdout."),
]


def export(
    model: ModelPath, to: TargetOption, define: ConstantOptions = None, output: OutputOption = None
) -> None:
    """Translate a model for SPIN or TLC, to compare their verdicts with ours.

    The translation has the same states and the same transitions, so the other checker must count the
    same number of distinct states.

    \b
    veristream export queue.net --to promela -o queue.pml
    spin -o2 -a queue.pml && cc -O2 -DSAFETY -DNOREDUCE -o pan pan.c && ./pan -E

    \b
    veristream export queue.net --to tla -o Queue.tla    writes Queue.cfg beside it
    java -cp tla2tools.jar tlc2.TLC -deadlock Queue

    If the model has a deadlock-freedom property, leave out -E and -deadlock: the translation gives every
    properly terminated state a self-loop, so the other checker reports only real deadlocks.
    """
    with failures():
        network = library.load(model, read_constants(define))
        match to:
            case Target.PROMELA:
                _write({output: library.export_promela(network)})
            case Target.TLA:
                module = _module_name(model if output is None else output, given=output is not None)
                exported = library.export_tla(network, module=module)
                if output is None:
                    _write({None: exported.spec})
                else:
                    _write({output: exported.spec, output.with_suffix(".cfg"): exported.config})


def _module_name(path: Path, given: bool) -> str:
    """Returns the module name for a file: TLC requires the two to match."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", path.stem):
        return path.stem
    if given:
        raise ModelError(
            f"{path.stem} is not a valid TLA+ module name",
            hint="use only letters, digits and _, as in Queue.tla",
        )
    return "M" + re.sub(r"[^A-Za-z0-9_]", "_", path.stem)


def _write(texts: dict[Path | None, str]) -> None:
    for path, text in texts.items():
        if path is None:
            typer.echo(text, nl=not text.endswith("\n"))
            continue
        try:
            path.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")
        except OSError as error:
            raise EnvironmentFailure(f"cannot write {path}: {error.strerror}") from error
