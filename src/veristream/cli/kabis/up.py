"""`veristream kabis up` and `down`."""

from __future__ import annotations

from typing import Annotated

import typer

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures

PartiesOption = Annotated[
    int | None,
    typer.Option("--parties", metavar="N", help="Number of validators, 3F + 1. [default: 4, or as in DIR]"),
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--storage",
        metavar="tolerant|paper|kafka=HOST:PORT,...",
        help="tolerant: 2F + 1 storage parties, F of which may be silent. paper: F + 1 storage parties."
        " kafka=: each party keeps its log in its own Kafka cluster; for each party, name a broker or a"
        " file of librdkafka properties. May be given twice.",
    ),
]
OrderingOption = Annotated[
    str | None,
    typer.Option(
        "--ordering",
        metavar="cometbft=HOST:PORT,...",
        help="Let existing CometBFT nodes order events; name the RPC address of every validator. Only"
        " storage parties are started.",
    ),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="PORT",
        min=0,
        help="Listen on this port and the following ones; 0 chooses free ones. By default, free ports are"
        " chosen the first time and kept.",
    ),
]
DetachOption = Annotated[
    bool, typer.Option("--detach", help="Return when all parties answer; `kabis down` stops them.")
]
FaultOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fault",
        metavar="PARTY=FAULT",
        help="Make a party misbehave: storage-1=alter or =withhold, validator-1=equivocate or =silent.",
    ),
]
RepairOption = Annotated[
    bool,
    typer.Option(
        "--repair", help="If a storage party's log is damaged, mark the lost records and continue."
    ),
]
ClosedOption = Annotated[
    bool,
    typer.Option("--closed", help="Found a closed ledger: clients may do only what `kabis access` grants."),
]
TlsOption = Annotated[
    bool,
    typer.Option(
        "--tls",
        help="Put all connections into TLS 1.3, with certificates of an authority made in DIR; stays on.",
    ),
]


def up(
    parties: PartiesOption = None,
    data: DataOption = DATA,
    detach: DetachOption = False,
    port: PortOption = None,
    storage: StorageOption = None,
    ordering: OrderingOption = None,
    fault: FaultOption = None,
    repair: RepairOption = False,
    closed: ClosedOption = False,
    tls: TlsOption = False,
) -> None:
    """Start a cluster on this machine: a process for each validator and each storage party.

    The first run creates keys and a genesis in DIR; later runs continue from there. Nothing is lost when
    parties are stopped or killed (-9). A party that dies is restarted; one that fails again and again is
    left down, and `kabis status` says why. All parties listen on loopback only.

    \b
    veristream kabis up                          until Ctrl-C
    veristream kabis up --detach                 until `veristream kabis down`
    veristream kabis up --parties 7              tolerates two faulty parties of each kind
    veristream kabis up --fault storage-1=alter  with a lying party
    veristream kabis up --storage kafka=HOST:PORT,HOST:PORT,HOST:PORT
    veristream kabis up --ordering cometbft=HOST:PORT,HOST:PORT,HOST:PORT,HOST:PORT

    One host is one trust domain: anyone who can read DIR has every key. Use it on laptops, for tests and
    demonstrations.

    Exit code: 0 when stopped, 2 if the arguments are wrong, 3 if a party cannot start.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import up as work

        stores, faults = tuple(storage or ()), tuple(fault or ())
        work.up(data, work.Wanted(parties, port, stores, faults, detach, repair, ordering, closed, tls))


def down(data: DataOption = DATA) -> None:
    """Stop the running parties of a cluster; their data is kept."""
    with kabis_failures():
        from veristream.cli.kabis.work import up as work

        work.down(data)
