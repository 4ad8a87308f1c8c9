"""How the command ends: its exit codes, and what it says when something is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum

import typer

from veristream.errors import EnvironmentFailure, ModelError
from veristream.verdict import Fault, Result, Unknown, Violated


class Exit(IntEnum):
    """What the exit code of the command means."""

    HOLDS = 0
    VIOLATED = 1
    MODEL_WRONG = 2
    ENVIRONMENT = 3
    UNKNOWN = 4


@contextmanager
def failures() -> Iterator[None]:
    """Turns what is the user's or the machine's fault into a message and an exit code."""
    try:
        yield
    except ModelError as error:
        _end(error.render(), Exit.MODEL_WRONG)
    except EnvironmentFailure as error:
        _end(error.render(), Exit.ENVIRONMENT)
    except MemoryError:
        _end("error: out of memory\nhint: --max-memory-mib keeps a search within bounds", Exit.ENVIRONMENT)


def exit_of(results: Sequence[Result]) -> Exit:
    """The exit code of a set of verdicts: the gravest decides."""
    verdicts = [result.verdict for result in results]
    if faults_of(results):
        return Exit.MODEL_WRONG
    if any(isinstance(verdict, Violated) for verdict in verdicts):
        return Exit.VIOLATED
    if any(isinstance(verdict, Unknown) for verdict in verdicts):
        return Exit.UNKNOWN
    return Exit.HOLDS


def faults_of(results: Sequence[Result]) -> tuple[Fault, ...]:
    """The run-time errors of the model that the searches met, each once."""
    found = (r.verdict.fault for r in results if isinstance(r.verdict, Unknown))
    return tuple(dict.fromkeys(fault for fault in found if fault is not None))


def tell_faults(results: Sequence[Result]) -> None:
    """Says on stderr what failed in the model and where it is written."""
    for fault in faults_of(results):
        typer.echo(ModelError(fault.message, fault.span).render(), err=True)


def _end(message: str, code: Exit) -> None:
    typer.echo(message, err=True)
    raise typer.Exit(code)
