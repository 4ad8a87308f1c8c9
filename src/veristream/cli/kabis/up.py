"""`veristream kabis up`."""

from __future__ import annotations

from typing import Annotated

import typer

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures

PartiesOption = Annotated[
    int | None,
    typer.Option(
        "--parties", metavar="N", help="Validators, 3F + 1 of them. [default: 4, or as they are in DIR]"
    ),
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--storage",
        metavar="tolerant|paper|kafka=HOST:PORT,...",
        help="Storage parties: tolerant has 2F + 1 of them, of which F may be silent; paper has F + 1."
        " kafka= has each keep its log in a Kafka cluster of its own: one broker's address for each party,"
        " or a file of librdkafka's properties. May be given twice.",
    ),
]
OrderingOption = Annotated[
    str | None,
    typer.Option(
        "--ordering",
        metavar="cometbft=HOST:PORT,...",
        help="Have existing CometBFT nodes order: the RPC of every validator. Only storage parties start.",
    ),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="PORT",
        min=0,
        help="Listen on this port and those after it; 0 for free ones. By default free ones, once.",
    ),
]
DetachOption = Annotated[
    bool, typer.Option("--detach", help="Return once all parties answer; `kabis down` stops them.")
]
FaultOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fault",
        metavar="PARTY=FAULT",
        help="Have a party misbehave: storage-1=alter or =withhold, validator-1=equivocate or =silent.",
    ),
]
RepairOption = Annotated[
    bool,
    typer.Option("--repair", help="Where a storage party's log is damaged, mark what is lost and go on."),
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
) -> None:
    """Start a cluster on this machine: a process for each validator and each storage party.

    The first time it makes keys and a genesis in DIR; from then on it goes on from what is there. Nothing
    is lost by stopping, or by kill -9. All parties listen on loopback only.

    \b
    veristream kabis up                          until Ctrl-C
    veristream kabis up --detach                 until `veristream kabis down`
    veristream kabis up --parties 7              stands two faulty parties
    veristream kabis up --fault storage-1=alter  with a party that lies
    veristream kabis up --storage kafka=HOST:PORT,HOST:PORT,HOST:PORT
    veristream kabis up --ordering cometbft=HOST:PORT,HOST:PORT,HOST:PORT,HOST:PORT

    One host is one trust domain: whoever can read DIR holds every key. It is for laptops, tests and demos.

    Exit code: 0 after it was stopped, 2 if what was asked is wrong, 3 if a party cannot start.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import up as work

        stores, faults = tuple(storage or ()), tuple(fault or ())
        work.up(data, work.Wanted(parties, port, stores, faults, detach, repair, ordering))
