"""`veristream record kafka`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.failure import failures
from veristream.errors import EnvironmentFailure

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""

ToOption = Annotated[
    Path, typer.Option("--to", metavar="FOLDER", help="Where the history goes: an empty or new folder.")
]
BootstrapOption = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT,…|FILE",
        help="Use a cluster that runs; a FILE has librdkafka's properties, those of TLS and SASL too.",
    ),
]
BrokersOption = Annotated[
    int, typer.Option("--brokers", metavar="N", min=1, help="Start N brokers here. Each takes 300 MB.")
]
WorkloadOption = Annotated[
    str,
    typer.Option(
        "--workload",
        metavar="NAME",
        help="sends, transactions (a quarter is aborted), or group (members come and go).",
    ),
]
FaultsOption = Annotated[
    str,
    typer.Option(
        "--faults",
        metavar="KIND,…",
        help="What happens to brokers: kill, pause, cut, delay, drop, several in turn, or none.",
    ),
]
SecondsOption = Annotated[
    float, typer.Option("--seconds", metavar="S", min=0.1, help="How long clients send.")
]
RateOption = Annotated[
    float,
    typer.Option("--rate", metavar="R", min=0, help="Messages per second of all producers; 0: no limit."),
]
PartitionsOption = Annotated[
    int, typer.Option("--partitions", metavar="N", min=1, help="Partitions of the topic.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PART.KEY=VALUE",
        help="A setting of a broker, topic, producer or consumer, or a feature of the cluster; repeatable.",
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="Determines the faults and aborts.")]


def kafka(
    to: ToOption = Path("kafka-history"),
    bootstrap: BootstrapOption = "",
    brokers: BrokersOption = 3,
    workload: WorkloadOption = "sends",
    faults: FaultsOption = "none",
    seconds: SecondsOption = 30.0,
    rate: RateOption = 500.0,
    partitions: PartitionsOption = 3,
    set_: SetOption = None,
    seed: SeedOption = 0,
) -> None:
    """Record producers and consumers of Kafka, while brokers are killed, paused or cut off.

    Three brokers are started on loopback, and the topic has a replica on each. When the time is up, all
    faults end, and a reader reads every partition to its end: without that, nobody can say what is lost.

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

        try:
            from veristream.kabis.kafka.settings import read_settings as read_cluster
            from veristream.recording.faults import read_kinds
            from veristream.recording.kafka.record import Request, record_kafka
            from veristream.recording.kafka.settings import read_settings
        except ModuleNotFoundError as missing:
            raise EnvironmentFailure(
                f"recording Kafka needs {missing.name}", "pip install 'veristream[kafka,spark]'"
            ) from missing

        request = Request(
            workload,
            read_kinds(faults),
            seconds,
            rate,
            partitions,
            brokers,
            seed,
            read_settings(read_pairs(set_)),
            read_cluster(bootstrap) if bootstrap else None,
        )
        run_recording(to, lambda tell: record_kafka(to, request, tell))


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
