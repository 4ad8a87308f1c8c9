"""`veristream audit`: what a running broker really did, from its recorded history."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veristream.cli.choices import look, write_page
from veristream.cli.failure import Exit, failures
from veristream.cli.options import JsonOption
from veristream.cli.output import echo
from veristream.errors import EnvironmentFailure, ModelError

if TYPE_CHECKING:
    from veristream.history.audited import Audit

HistoryPath = Annotated[
    Path,
    typer.Argument(metavar="HISTORY", help="The folder of a history, or a file that `import` reads."),
]
PropertyOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="NAME",
        help="Check this property only; a word that only one name has is enough. May be repeated.",
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="The Spark cluster to audit on, such as local[2] or spark://HOST:7077. [default: this process,"
        " or Spark on this machine for a history of 30 million events]",
    ),
]
LogOptions = Annotated[
    list[Path] | None,
    typer.Option(
        "--log",
        metavar="DUMP",
        help="What kafka-dump-log.sh --print-data-log printed of a Kafka broker: say from it why messages"
        " are lost. May be repeated, once for each broker.",
    ),
]
HtmlOption = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Also write an HTML page, with witnesses as charts."),
]


def audit(
    history: HistoryPath,
    names: PropertyOptions = None,
    logs: LogOptions = None,
    master: MasterOption = None,
    as_json: JsonOption = False,
    html: HtmlOption = None,
) -> None:
    """Say what a broker really did, from its recorded history: which properties held, and which did not.

    A verdict is `held` (over how much), `violated` (with the events that show it) or `not observable` (with
    what a recording needs so that it can be decided). `veristream record` and `import` make histories;
    `veristream properties` explains the properties.

    \b
    veristream audit history
    veristream audit history --property order --property 'at most once'
    veristream audit history --html audit.html
    veristream audit history --json | jq '.results[] | select(.verdict == "violated")'
    veristream audit kafka-history --log broker-1.txt --log broker-2.txt
    veristream audit /shared/history --master spark://HOST:7077

    On a Spark cluster, HISTORY must be on a path that all machines share.

    Exit code: 0 if all held, 1 if one is violated, 4 if none is violated and one is not observable; 2 if
    the history or an option is wrong, 3 if Spark or the machine fails, 70 if Veristream does.
    """
    with failures(), _told_as(as_json):
        if html is not None and not html.resolve().parent.is_dir():
            raise ModelError(f"the folder of {html} does not exist", hint="--html needs a file to write")
        found = _audit(history, names or [], logs or [], master, html is not None)
        from veristream.history.report import html as page
        from veristream.history.report import json as document
        from veristream.history.report import text

        write_page(html, lambda: page.render_audit(found))
        echo(document.render_audit(found) if as_json else text.render_audit(found, look(False)))
        raise typer.Exit(_exit_of(found))


def _audit(
    history: Path, names: list[str], logs: list[Path], master: str | None, with_timeline: bool
) -> Audit:
    from veristream import library
    from veristream.cli.progress import telling_steps

    logging.getLogger().addHandler(logging.NullHandler())  # Py4J logs the call that Ctrl-C interrupts
    with telling_steps(_tasks) as tell:
        return library.audit(
            history, properties=names, master=master, timeline=with_timeline, logs=logs, tell=tell
        )


def _tasks() -> str:
    """Returns how many tasks of Spark have finished, if it runs."""
    if "pyspark" not in sys.modules:
        return ""
    from veristream.spark import describe_tasks

    return describe_tasks()


def _exit_of(found: Audit) -> Exit:
    from veristream.history.verdicts import Word

    words = {one.word for one in found.judgements}
    if Word.VIOLATED in words:
        return Exit.VIOLATED
    return Exit.UNKNOWN if Word.NOT_OBSERVABLE in words else Exit.HOLDS


@contextmanager
def _told_as(as_json: bool) -> Iterator[None]:
    """Prints an error as JSON, too, if that is asked for."""
    try:
        try:
            yield
        except MemoryError as error:
            raise EnvironmentFailure(
                "out of memory", "record into more buckets, or audit on a cluster with --master"
            ) from error
    except (ModelError, EnvironmentFailure) as error:
        if as_json:
            _print_error(error.message, error.hint)
        raise


def _print_error(message: str, hint: str) -> None:
    echo(json.dumps({"error": {"message": message, "hint": hint}}, indent=2, ensure_ascii=False))
