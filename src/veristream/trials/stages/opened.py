"""The stage of each broker, and the audit of what was recorded on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from veristream.brokers.kerberos.secured import Security
from veristream.history.audited import Audit
from veristream.history.job.run import Options, audit_folder
from veristream.history.properties import Property
from veristream.trials.intruders.attacks import Attack, Observation
from veristream.trials.run import Opened


def open_stage(broker: str, folder: Path) -> Opened:
    """Opens the stage of a broker; its clients are imported only now."""
    match broker:
        case "kafka":
            from veristream.trials.stages.kafka import open_kafka

            return open_kafka(folder)
        case "rabbitmq":
            from veristream.trials.stages.rabbitmq import open_rabbitmq

            return open_rabbitmq(folder)
        case "nsq":
            from veristream.trials.stages.nsq import open_nsq

            return open_nsq()
        case _:
            raise ValueError(f"no stage for {broker}")


def audit(history: Path, properties: Sequence[Property]) -> Audit:
    """Audits a history in this process, with its course over time."""
    return audit_folder(history, properties, Options(with_timeline=True), name=history.name)


def observe(security: Security, attacks: Sequence[Attack], folder: Path) -> Mapping[Attack, Observation]:
    """Attacks a Kafka with this security; its clients are imported only now."""
    from veristream.trials.intruders import stage

    return stage.observe(security, attacks, folder)
