"""What `veristream record` has in common for all brokers: options, and how a recording is run and told."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from veristream.errors import EnvironmentFailure

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""

ToOption = Annotated[
    Path, typer.Option("--to", metavar="FOLDER", help="Where the history goes: an empty or new folder.")
]
FaultsOption = Annotated[
    str,
    typer.Option(
        "--faults",
        metavar="KIND,…",
        help="What happens to nodes, one fault after the other, each for up to 3 s: kill, pause, cut (no"
        " connections), delay (half a second more), drop (no answers); or none.",
    ),
]
SecondsOption = Annotated[
    float, typer.Option("--seconds", metavar="S", min=0.1, help="How long clients send.")
]
RateOption = Annotated[
    float,
    typer.Option("--rate", metavar="R", min=0, help="Messages per second of all producers; 0: no limit."),
]
SeedOption = Annotated[
    int,
    typer.Option(
        "--seed", metavar="N", help="Determines what is left to chance, such as which node is killed when."
    ),
]


@contextmanager
def needing(broker: str, extras: str) -> Iterator[None]:
    """Says what to install if a package is missing that recording the broker imports."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise EnvironmentFailure(
            f"recording {broker} needs {missing.name}", f"pip install 'veristream[{extras}]'"
        ) from missing


def run_recording(to: Path, work: Callable[[Callable[[str], None]], int]) -> None:
    """Runs what records, and tells where the history is and what to do with it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: brokers must not be left
    try:
        with showing() as tell:
            events = work(tell)
    except KeyboardInterrupt:
        if (to / "history.json").exists():
            typer.echo(f"interrupted: {to} is a history, but not complete", err=True)
        raise typer.Exit(INTERRUPTED) from None
    typer.echo(f"{events:,} events in {to}")
    typer.echo(f"audit them with: veristream audit {to}")


@contextmanager
def showing() -> Iterator[Callable[[str], None]]:
    """Yields what keeps one status line up to date; silent unless stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda what: None
        return
    from rich.console import Console

    with Console(stderr=True).status("", spinner="dots") as status:
        yield status.update
