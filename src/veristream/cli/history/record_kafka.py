"""`veristream record kafka`."""

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

BootstrapOption = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT,…|FILE",
        help="Use a Kafka that runs, without faults; a FILE has librdkafka's properties, such as those of"
        " TLS and SASL.",
    ),
]
NodesOption = Annotated[
    int,
    typer.Option("--nodes", "--brokers", metavar="N", min=1, help="Start N brokers. Each takes 300 MB."),
]
WorkloadOption = Annotated[
    str,
    typer.Option(
        "--workload",
        metavar="NAME",
        help="sends, transactions (a quarter is aborted), or group (members come and go).",
    ),
]
PartitionsOption = Annotated[
    int, typer.Option("--partitions", metavar="N", min=1, help="Partitions of the topic.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PART.KEY=VALUE",
        help="A setting of the brokers (broker.KEY), the topic (topic.min.insync.replicas), producers"
        " (producer.acks) or consumers (consumer.isolation.level), or a feature of the cluster"
        " (feature.transaction.version); repeatable.",
    ),
]


def kafka(
    to: ToOption = Path("kafka-history"),
    bootstrap: BootstrapOption = "",
    nodes: NodesOption = 3,
    workload: WorkloadOption = "sends",
    partitions: PartitionsOption = 3,
    faults: FaultsOption = "none",
    seconds: SecondsOption = 30.0,
    rate: RateOption = 500.0,
    set_: SetOption = None,
    seed: SeedOption = 0,
) -> None:
    """Record producers and consumers of Kafka, while brokers are killed, paused or cut off.

    Three brokers are started on loopback, as one cluster, and the topic has a replica on each; this needs
    Java 17, and Maven the first time. When the time is up, all faults end, and a reader reads every
    partition to its end: without that, nobody can say what is lost.

    \b
    veristream record kafka --faults kill                                  one broker after the other
    veristream record kafka --faults kill --set producer.acks=1 --set producer.enable.idempotence=false
    veristream record kafka --faults cut,delay --set producer.enable.idempotence=false
    veristream record kafka --workload transactions --set consumer.isolation.level=read_uncommitted
    veristream record kafka --workload group --faults kill,pause --set consumer.enable.auto.commit=true
    veristream record kafka --set topic.min.insync.replicas=2 --set feature.transaction.version=1
    veristream record kafka --bootstrap broker.example:9092 --seconds 600  no faults, a topic of its own
    veristream audit kafka-history                                         what held, what did not

    Clients have librdkafka's defaults, except that a message is given up after 30 s.

    Exit code: 0, 2 if an option is wrong, 3 if Kafka fails, 130 after Ctrl-C, which leaves a history that
    is not complete.
    """
    with failures():
        from veristream.cli.broker import read_settings as read_pairs

        with needing("Kafka", "kafka,spark"):
            from veristream.kabis.kafka.settings import read_settings as read_cluster
            from veristream.recording.faults import read_kinds
            from veristream.recording.kafka.record import Request, record_kafka
            from veristream.recording.kafka.settings import read_settings

        request = Request(
            workload,
            read_kinds(faults),
            seconds,
            rate,
            partitions,
            nodes,
            seed,
            read_settings(read_pairs(set_)),
            read_cluster(bootstrap) if bootstrap else None,
        )
        run_recording(to, lambda tell: record_kafka(to, request, tell))
