"""`veristream import`: a history from recordings that others made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.failure import failures

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)

FileArguments = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Recordings of one run: files, or folders of them."),
]
FolderOption = Annotated[
    Path, typer.Option("--to", metavar="FOLDER", help="Where the history goes: an empty or new folder.")
]
IncompleteOption = Annotated[
    bool,
    typer.Option(
        "--incomplete",
        help="Accept that events are missing, for example of a client that was killed. Then nothing is"
        " concluded from what is absent.",
    ),
]
TransactionsOption = Annotated[
    bool | None,
    typer.Option(
        "--transactions/--no-transactions",
        help="Jepsen: whether sends and polls ran in transactions. [default: if there is a :txn]",
    ),
]
OneHostOption = Annotated[
    bool,
    typer.Option(
        "--one-host",
        help="Kafka's verifiable clients: all ran on one machine, so that their clocks can be compared.",
    ),
]


@app.command()
def import_recordings(
    files: FileArguments,
    to: FolderOption,
    incomplete: IncompleteOption = False,
    transactions: TransactionsOption = None,
    one_host: OneHostOption = False,
) -> None:
    """Import recordings of others as a history that `veristream audit` can check.

    These are Jepsen histories (EDN or JSON) of its workloads for Kafka and for queues; the output of
    Kafka's verifiable producers and consumers, alone or with dumps of brokers' logs; and the folder of a
    Kabis cluster. The kind of a file is told by what it contains; one that is cut or malformed is an error.

    \b
    veristream import store/latest/history.edn --to jepsen
    veristream import producer-*.log consumer-*.log --one-host --to clients
    veristream import clients/ broker-1.txt --to clients-and-log
    veristream import kabis-cluster/ --to chain
    veristream audit jepsen                                  what held, what did not

    Exit code: 0, 2 if a file is not as it must be, or 3 if something cannot be read or written.
    """
    with failures():
        from veristream.history.foreign.importing import ImportOptions, import_history
        from veristream.report.words import tell_count

        options = ImportOptions(incomplete, transactions, one_host)
        manifest, events = import_history(files, to, options)
        processes = len(manifest.processes)
        clients = f"{processes:,} process{'' if processes == 1 else 'es'}"
        streams = tell_count(len(manifest.streams), "stream")
        typer.echo(f"{to}: {tell_count(events, 'event')} of {clients} in {streams} ({manifest.source})")
        for name, value in manifest.settings.items():
            typer.echo(f"  {name}: {value}")
        if not manifest.complete:
            typer.echo("  incomplete: nothing will be concluded from what is absent")
        if not manifest.producers_complete:
            typer.echo("  producers: not all that was sent is known")
