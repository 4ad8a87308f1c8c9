"""The scenarios of RabbitMQ, on one cluster of three nodes; each has a queue of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from veristream.recording.rabbitmq.running import RunningRabbit, local_rabbit
from veristream.recording.rabbitmq.scenarios import (
    acknowledgements_are_cut,
    acknowledgements_are_forgotten,
    leader_is_killed,
    messages_are_requeued,
    node_is_killed,
    prefetch_is_filled,
    unsynchronised_mirror_leads,
)
from veristream.recording.rabbitmq.settings import Clients, Settings
from veristream.recording.recording import Recording
from veristream.trials.run import Stage
from veristream.trials.trial import Trial

Run = Callable[[RunningRabbit, Recording], object]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is run, and with which settings of the queue and its clients."""

    run: Run
    settings: Settings = field(default_factory=Settings)


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "persistent": Scenario(node_is_killed),
    "transient": Scenario(node_is_killed, Settings(clients=Clients(persistent=False))),
    "unconfirmed": Scenario(node_is_killed, Settings(clients=Clients(confirms=False))),
    "forgotten": Scenario(acknowledgements_are_forgotten),
    "mirrored": Scenario(unsynchronised_mirror_leads, Settings("mirrored")),
    "quorum": Scenario(leader_is_killed, Settings("quorum")),
    "requeue": Scenario(messages_are_requeued),
    "cut": Scenario(acknowledgements_are_cut),
    "prefetch": Scenario(prefetch_is_filled, Settings(clients=Clients(prefetch=5))),
}
"""What records each trial, by its name."""


class _RabbitMQ:
    def __init__(self, rabbit: RunningRabbit) -> None:
        self._rabbit = rabbit

    def record(self, trial: Trial, history: Path) -> None:
        scenario = SCENARIOS[trial.name]
        self._rabbit.settings = scenario.settings
        with Recording(history, "rabbitmq", trial.name) as recording:
            scenario.run(self._rabbit, recording)


@contextmanager
def open_rabbitmq(folder: Path) -> Iterator[Stage]:
    """Runs the nodes until the block is left."""
    with local_rabbit(folder, Settings()) as rabbit:
        yield _RabbitMQ(rabbit)
