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
        "--topic", metavar="T", help="Only this topic; may be repeated. By default all validated."
    ),
]
FilesOption = Annotated[
    bool,
    typer.Option(
        "--files", help="Read the parties' own files in DIR and ask nobody: the cluster may be down."
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="The Spark cluster, such as local[2] or spark://HOST:7077. By default this machine.",
    ),
]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write the report as one HTML page, too.")
]
SamplesOption = Annotated[
    int,
    typer.Option("--findings", metavar="N", min=0, help="Tell so many findings of each kind one by one."),
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
    """Check everything: every admitted batch, at every storage party, with every signature, on Spark.

    A consumer checks what it reads, and asks one party. An audit asks all of them for all of it, and names
    whoever lies:

    \b
    bad_signature         a batch that its producer did not sign, or with a key that was not valid
    altered               a party gives back other events than those that were signed
    withheld              a party vouched for a batch and does not give it back
    hole                  sequence numbers are missing on the ledger, or their batch was given up
    splice                a batch on the ledger does not follow the one before it
    equivocation          a producer or a validator signed two things where there can be one
    unverifiable_receipt  a storage receipt or a certificate on the ledger that does not verify
    damaged               with --files: a party's log is damaged on its disk
    silent                a party does not answer, so that nothing is known of what it keeps
    phantom               a batch is stored and was never admitted; a note, for it may be on its way

    \b
    veristream kabis audit
    veristream kabis audit --topic orders --html audit.html
    veristream kabis audit --files --data /mnt/evidence --master spark://HOST:7077

    On a cluster the tasks connect to the parties themselves, with the key of --as; with --files all
    machines must see DIR.

    Exit code: 0 if nothing but phantoms was found, 1 if a fault was, 2 if what was asked is wrong, 3 if the
    cluster or Spark does not answer.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import audit as work

        asked = work.Asked(tuple(topic or ()), files, master, html, samples, name, as_json)
        work.run(data, asked)
