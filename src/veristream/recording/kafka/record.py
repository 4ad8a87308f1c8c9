"""`veristream record kafka`: brokers, a workload, its faults, and the history that comes of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from veristream.errors import EnvironmentFailure, ModelError, suggest
from veristream.history.store.document import MANIFEST_NAME
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.recording.faults import ON_PROXY, Faults, Kind, schedule
from veristream.recording.kafka.running import ANSWER_S, RunningKafka, local_kafka
from veristream.recording.kafka.settings import Settings
from veristream.recording.kafka.workloads import WORKLOADS, Plan, make_workload, new_topic
from veristream.recording.recording import Recording
from veristream.recording.workload import Load, run

Tell = Callable[[str], None]
"""Is told what is done now."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to record. `elsewhere` names a cluster that runs; otherwise `brokers` are started here."""

    workload: str = "sends"
    faults: Sequence[Kind] = ()
    seconds: float = 30.0
    rate: float = 500.0
    partitions: int = 3
    brokers: int = 3
    seed: int = 0
    settings: Settings = field(default_factory=Settings)
    elsewhere: KafkaSettings | None = None


def record_kafka(folder: Path, request: Request, tell: Tell = lambda what: None) -> int:
    """Records a workload into a new folder; returns the number of events.

    The history is whole however this ends, and complete if the workload came to its end. Raises ModelError
    for what cannot be asked, EnvironmentFailure if Kafka fails.
    """
    _check(folder, request)
    tell("starting brokers" if request.elsewhere is None else "connecting")
    with _open(request) as kafka:
        topic = new_topic(request.workload)
        kafka.create_topic(topic, request.partitions)
        settings = {
            **request.settings.flat(),
            "rate": str(request.rate),
            "seconds": str(request.seconds),
            "seed": str(request.seed),
            "faults": ",".join(request.faults) or "none",
        }
        plan = schedule(request.faults, kafka.nodes(), request.seconds, request.seed)
        with Recording(folder, "kafka", request.workload, settings) as recording:
            for name in kafka.nodes():
                recording.node(name)
            faults = Faults(recording, plan, kafka.brokers, kafka.network)

            def watch(seconds: float) -> None:
                left = max(0.0, request.seconds - seconds)
                tell(f"{recording.events:,} events, {left:.0f} s to go" if left else "ending")

            work = Plan(kafka, recording, topic, request.partitions, request.seed)
            load = Load(request.seconds, request.rate)
            run(recording, make_workload(request.workload, work, watch), load, faults)
        return recording.events


def _check(folder: Path, request: Request) -> None:
    """Finds out what is wrong before any broker is started."""
    if request.workload not in WORKLOADS:
        known = ", ".join(WORKLOADS)
        raise ModelError(
            f"unknown workload `{request.workload}`",
            hint=suggest(request.workload, WORKLOADS, f"choose from {known}"),
        )
    if (folder / MANIFEST_NAME).exists() or (folder / "events").exists():
        raise ModelError(
            f"`{folder}` already contains a history", hint="name another folder with --to, or remove it"
        )
    if request.elsewhere is None:
        return
    if request.faults:
        raise ModelError(
            f"the fault `{request.faults[0]}` needs brokers that were started here",
            hint="leave out --bootstrap, or choose --faults none",
        )
    if request.settings.broker or request.settings.feature:
        raise ModelError(
            "settings of brokers apply only to those that are started here",
            hint="leave out --bootstrap, or set topic.KEY, producer.KEY and consumer.KEY only",
        )


@contextmanager
def _open(request: Request) -> Iterator[RunningKafka]:
    if request.elsewhere is not None:
        kafka = RunningKafka(
            request.elsewhere.bootstrap, request.settings, properties=request.elsewhere.properties
        )
        _answers(kafka)
        yield kafka
        return
    proxied = any(each in ON_PROXY for each in request.faults)
    with (
        tempfile.TemporaryDirectory(prefix="veristream-kafka-") as folder,
        local_kafka(Path(folder), request.settings, request.brokers, proxied=proxied) as kafka,
    ):
        yield kafka


def _answers(kafka: RunningKafka) -> None:
    try:
        administrator = AdminClient(kafka.client_settings("administrator"))
    except (KafkaException, ValueError) as failure:
        raise ModelError(
            f"Kafka's client rejects the properties for {kafka.bootstrap}: {failure}",
            hint="they are librdkafka's; see its list of properties",
        ) from failure
    try:
        administrator.list_topics(timeout=ANSWER_S)
    except KafkaException as failure:
        raise EnvironmentFailure(
            f"no Kafka answers at {kafka.bootstrap}: {failure}",
            "check that it runs and that the address is right",
        ) from failure
