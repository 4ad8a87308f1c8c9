"""`veristream record rabbitmq`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.failure import failures
from veristream.cli.history.recording import (
    FaultsOption,
    RateOption,
    SecondsOption,
    SeedOption,
    ToOption,
    needing,
    run_recording,
)

UrlOption = Annotated[
    list[str] | None,
    typer.Option(
        "--url",
        metavar="amqp://USER:PASSWORD@HOST:PORT/%2F",
        help="Use a RabbitMQ that runs, without faults; repeatable, once for each node of a cluster.",
    ),
]
NodesOption = Annotated[
    int, typer.Option("--nodes", metavar="N", min=1, help="Start N nodes. Each takes 130 MB.")
]
QueueOption = Annotated[
    str, typer.Option("--queue", metavar="KIND", help="classic, quorum, or mirrored (on all nodes).")
]
PersistentOption = Annotated[
    bool, typer.Option("--persistent/--transient", help="Whether messages are written to disk.")
]
ConfirmsOption = Annotated[
    bool,
    typer.Option(
        "--confirms/--no-confirms",
        help="Whether RabbitMQ confirms messages; else a producer takes one for sent once it is written.",
    ),
]
PrefetchOption = Annotated[
    int,
    typer.Option(
        "--prefetch", metavar="N", min=0, help="Messages in flight to each consumer; 0: no limit."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PART.KEY=VALUE",
        help="A line of rabbitmq.conf (broker.KEY), an argument of the queue (queue.x-max-length), a key "
        "of the policy of a mirrored queue (policy.ha-sync-mode), or of clients (client.requeue-every); "
        "repeatable.",
    ),
]


def rabbitmq(
    to: ToOption = Path("rabbitmq-history"),
    url: UrlOption = None,
    nodes: NodesOption = 3,
    queue: QueueOption = "classic",
    persistent: PersistentOption = True,
    confirms: ConfirmsOption = True,
    prefetch: PrefetchOption = 10,
    faults: FaultsOption = "none",
    seconds: SecondsOption = 30.0,
    rate: RateOption = 200.0,
    set_: SetOption = None,
    seed: SeedOption = 0,
) -> None:
    """Record producers and consumers of a RabbitMQ queue, while nodes are killed, paused or cut off.

    Three nodes are started on loopback, as one cluster; this needs Debian 12, but not root. When the time
    is up, all faults end, and a reader empties the queue: without that, nobody can say what is lost.

    \b
    veristream record rabbitmq --faults kill --queue quorum              one node after the other
    veristream record rabbitmq --faults kill --nodes 1 --transient --set client.consumers=0
    veristream record rabbitmq --faults kill --no-confirms
    veristream record rabbitmq --faults kill --queue mirrored --set policy.ha-promote-on-failure=when-synced
    veristream record rabbitmq --faults cut,delay --prefetch 1 --set client.requeue-every=10
    veristream record rabbitmq --url amqp://guest:guest@127.0.0.1:5672/%2F   no faults, a queue of its own
    veristream audit rabbitmq-history                                    what held, what did not

    Without consumers, messages wait in the queue for the end. AMQP does not answer acknowledgements: they
    are certain only once their queue has answered something after them, for which consumers here ask four
    times a second.

    Exit code: 0, 2 if an option is wrong, 3 if RabbitMQ fails, 130 after Ctrl-C, which leaves a history
    that is not complete.
    """
    with failures():
        from veristream.cli.broker import read_settings as read_pairs

        with needing("RabbitMQ", "rabbitmq,spark"):
            from veristream.recording.faults import read_kinds
            from veristream.recording.rabbitmq.record import Request, record_rabbitmq
            from veristream.recording.rabbitmq.settings import read_settings
        flat = {
            "queue.kind": queue,
            "client.persistent": str(persistent).lower(),
            "client.confirms": str(confirms).lower(),
            "client.prefetch": str(prefetch),
            **read_pairs(set_),
        }
        request = Request(
            read_kinds(faults), seconds, rate, nodes, seed, read_settings(flat), tuple(url or ())
        )
        run_recording(to, lambda tell: record_rabbitmq(to, request, tell))
