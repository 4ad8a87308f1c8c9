"""Replays a run: plans it, executes it on real brokers, records and audits what happened, and concludes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from veristream.errors import ModelError
from veristream.history.job.run import Options, audit_folder
from veristream.history.properties import Property
from veristream.replay.counterparts import Missing
from veristream.replay.course import Tell
from veristream.replay.outcome import NotExecutable, Replayed, conclude
from veristream.replay.plan import plan
from veristream.replay.table import Table, find_table
from veristream.replay.trace import Run

PATIENCE_S: Final = 30.0
"""How long a step waits for what the run has next."""

PARTITIONS: Final = "PARTITIONS"
"""The constant of a model that says how many partitions there are."""

IDS: Final = "TIDS"
"""The constant of a model that says how many transactional ids its clients share."""


@dataclass(frozen=True, slots=True)
class Request:
    """A run of a model, and where it is replayed.

    `settings` are those of `veristream record`, and go before those of the table. Unless it is `steered`,
    clients do the same, and nothing is held.
    """

    run: Run
    broker: str = "kafka"
    settings: Mapping[str, str] = field(default_factory=dict)
    seconds: float = PATIENCE_S
    steered: bool = True


def replay(
    request: Request,
    folder: Path,
    tell: Tell = lambda step: None,
    say: Callable[[str], None] = lambda words: None,
) -> Replayed:
    """Executes a run on brokers of this machine; the recording is then in `folder/history`."""
    table = find_table(request.run.model, request.broker)
    asked = None if request.run.witness else find_property(table, request.run.model_property)
    todo = plan(request.run.trace, table)
    missing = todo.missing
    if missing is not None:
        assert isinstance(missing.counterpart, Missing)
        return Replayed(todo, asked, NotExecutable(missing, missing.counterpart.why))
    assert request.broker == "kafka", request.broker
    from veristream.replay.kafka.run import Given, execute_on_kafka

    constants = request.run.constants
    given = Given(
        {**table.settings(constants, {one.action for one in todo.steps}), **request.settings},
        {**table.constants, **constants}.get(PARTITIONS, 1),
        request.seconds,
        f"{request.run.model.name} {request.run.model_property}",
        request.steered,
        {**table.constants, **constants}.get(IDS, 1),
    )
    seen = execute_on_kafka(todo, given, folder, tell, say)
    say("auditing")
    audit = audit_folder(folder / "history", tuple(Property), Options(with_timeline=True), name="history")
    judgement = next((one for one in audit.judgements if one.property == asked), None)
    return Replayed(todo, asked, conclude(seen.course, judgement), seen.course, audit, seen.offsets)


def find_property(table: Table, name: str) -> Property | None:
    """Returns the property of a history that is the same as the model's; None if the run's steps show it.

    Raises ModelError if the table says nothing of it.
    """
    base = name.partition("(")[0]
    if base not in table.properties:
        known = ", ".join(table.properties) or "none"
        raise ModelError(
            f"no property of a history stands for {base} of {table.file}", hint=f"the table has {known}"
        )
    return table.properties[base]
