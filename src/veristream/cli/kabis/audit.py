"""`veristream kabis audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.kabis.options import DATA, DataOption, NameOption, kabis_failures
from veristream.cli.options import JsonOption

TopicsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="T",
        help="Audit only this topic; repeat for several. By default, audit all validated topics.",
    ),
]
FilesOption = Annotated[
    bool,
    typer.Option(
        "--files",
        help="Read the parties' files in DIR instead of connecting to them; the cluster may be down.",
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Spark master, such as local[2] or spark://HOST:7077. By default, Spark runs on this machine.",
    ),
]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Also write the report as an HTML page.")
]
SamplesOption = Annotated[
    int,
    typer.Option("--findings", metavar="N", min=0, help="Print up to N findings of each kind."),
]


def audit(
    data: DataOption = DATA,
    topic: TopicsOption = None,
    files: FilesOption = False,
    master: MasterOption = None,
    html: HtmlOption = None,
    samples: SamplesOption = 20,
    name: NameOption = "consumer",
    as_json: JsonOption = False,
) -> None:
    """Check every admitted batch and every signature at every storage party, on Spark.

    A consumer checks only what it reads, from one party. An audit reads everything from all parties and
    names those that lie:

    \b
    bad_signature         a batch is not signed by its producer, or the key was not valid
    no_right              a batch or an access rule was ordered without a right in force
    altered               a party returns events other than those that were signed
    withheld              a party signed a receipt for a batch but does not return the batch
    hole                  sequence numbers are missing on the ledger, or their batch was skipped
    splice                a batch on the ledger does not follow the previous one
    equivocation          a producer or a validator signed two contradicting messages
    unverifiable_receipt  a storage receipt or a certificate on the ledger does not verify
    damaged               with --files: a party's log is damaged on disk
    silent                a party does not answer, so its data cannot be checked
    phantom               a batch is stored but not admitted; only a note, it may be in flight

    \b
    veristream kabis audit
    veristream kabis audit --topic orders --html audit.html
    veristream kabis audit --files --data /mnt/evidence --master spark://HOST:7077

    On a Spark cluster, the tasks connect to the parties with the key of --as; with --files, DIR must be
    readable on all machines.

    Exit code: 0 if at most phantoms were found, 1 if there is a fault, 2 if the arguments are wrong, 3 if
    the cluster or Spark does not answer.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import audit as work

        asked = work.Asked(tuple(topic or ()), files, master, html, samples, name, as_json)
        work.run(data, asked)
