"""Exit codes and error messages of the command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import NoReturn

from veristream.cli.output import echo
from veristream.errors import EnvironmentFailure, ModelError
from veristream.verdict import Fault, Invalid, Result, Unknown, Violated


class Exit(IntEnum):
    """The exit codes of the command."""

    HOLDS = 0
    VIOLATED = 1
    MODEL_WRONG = 2
    ENVIRONMENT = 3
    UNKNOWN = 4
    BUG = 70  # as in BSD's sysexits.h


@contextmanager
def failures() -> Iterator[None]:
    """Turns a ModelError or an EnvironmentFailure into a message and an exit code."""
    try:
        yield
    except ModelError as error:
        _end(error.render(), Exit.MODEL_WRONG)
    except EnvironmentFailure as error:
        _end(error.render(), Exit.ENVIRONMENT)
    except MemoryError:
        _end("error: out of memory\nhint: limit the search with --max-memory-mib", Exit.ENVIRONMENT)


def exit_of(results: Sequence[Result]) -> Exit:
    """Returns the exit code for these verdicts; the most severe one decides."""
    verdicts = [result.verdict for result in results]
    if faults_of(results) or any(isinstance(verdict, Invalid) for verdict in verdicts):
        return Exit.MODEL_WRONG
    if any(isinstance(verdict, Violated) for verdict in verdicts):
        return Exit.VIOLATED
    if any(isinstance(verdict, Unknown) for verdict in verdicts):
        return Exit.UNKNOWN
    return Exit.HOLDS


def faults_of(results: Sequence[Result]) -> tuple[Fault, ...]:
    """Returns the run-time errors of the model that the searches found, without duplicates."""
    found = (r.verdict.fault for r in results if isinstance(r.verdict, Unknown))
    return tuple(dict.fromkeys(fault for fault in found if fault is not None))


def tell_faults(results: Sequence[Result]) -> None:
    """Prints on stderr what is wrong with properties, and the model's run-time errors, with places."""
    for verdict in (result.verdict for result in results):
        if isinstance(verdict, Invalid):
            echo(ModelError(verdict.reason, verdict.span, verdict.hint).render(), err=True)
    for fault in faults_of(results):
        echo(ModelError(fault.message, fault.span).render(), err=True)


def end_by_bug(error: Exception, as_json: bool) -> NoReturn:
    """Reports an exception that is nobody's mistake but ours, and exits; with JSON, on stdout too."""
    import json
    import traceback

    from veristream import __version__

    message = f"internal error: {type(error).__name__}: {error}".rstrip(": ")
    hint = f"this is a bug of Veristream {__version__}, and no verdict: please report it with the traceback"
    echo("".join(traceback.format_exception(error)), err=True)
    echo(f"error: {message}\nhint: {hint}, the command line and the model", err=True)
    if as_json:
        echo(json.dumps({"error": {"message": message, "hint": hint}}, indent=2, ensure_ascii=False))
    raise SystemExit(int(Exit.BUG)) from error


def _end(message: str, code: Exit) -> NoReturn:
    echo(message, err=True)
    raise SystemExit(int(code))
