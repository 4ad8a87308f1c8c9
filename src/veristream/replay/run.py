"""Replays a run: plans it, executes it on real brokers, records and audits what happened, and concludes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from veristream.errors import ModelError, suggest
from veristream.history.job.run import Options, audit_folder
from veristream.history.properties import Property
from veristream.history.verdicts import Judgement
from veristream.replay.counterparts import Missing
from veristream.replay.course import Tell
from veristream.replay.execution import Execute, Given
from veristream.replay.outcome import NotExecutable, Observed, Replayed, conclude
from veristream.replay.plan import plan
from veristream.replay.table import Table, find_table
from veristream.replay.trace import Run

PATIENCE_S: Final = 30.0
"""How long a step waits for what the run has next."""

BROKERS: Final = ("kafka", "rabbitmq", "nsq")


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
    execute: Execute | None = None,
) -> Replayed:
    """Executes a run on brokers of this machine; the recording is then in `folder/history`.

    Unless `execute` does it, brokers are started for it.
    """
    executes = _execution(request.broker) if execute is None else execute
    run = request.run
    table = find_table(run.model, request.broker)
    todo = plan(run.trace, table, run.constants)
    missing = todo.missing
    if missing is not None:
        assert isinstance(missing.counterpart, Missing)
        known = _known_properties(table).get(_base(run.model_property))
        return Replayed(todo, known, NotExecutable(missing, missing.counterpart.why))
    asked = None if run.witness else find_property(table, run.model_property)
    is_audited = asked is None or isinstance(asked, Property)
    given = Given(
        {**table.settings(run.constants, {one.action for one in todo.steps}), **request.settings},
        table.values(run.constants),
        request.seconds,
        f"{run.model.name} {run.model_property}",
        request.steered,
        "" if is_audited else str(asked),
    )
    seen = executes(todo, given, folder, tell, say)
    say("auditing")
    audit = audit_folder(folder / "history", tuple(Property), Options(with_timeline=True), name="history")
    said: tuple[Judgement | Observed, ...] = (*audit.judgements, *seen.observed)
    judgement = next((one for one in said if one.property == asked), None)
    finding = conclude(seen.course, judgement)
    return Replayed(todo, asked, finding, seen.course, audit, seen.offsets, seen.evidence)


def _execution(broker: str) -> Execute:
    """Returns what executes plans on a kind of brokers; raises ModelError."""
    match broker:
        case "kafka":
            from veristream.replay.kafka.run import execute_on_kafka

            return execute_on_kafka
        case "rabbitmq":
            from veristream.replay.rabbitmq.run import execute_on_rabbitmq

            return execute_on_rabbitmq
        case "nsq":
            from veristream.replay.nsq.run import execute_on_nsq

            return execute_on_nsq
        case _:
            raise ModelError(
                f"nothing is replayed on {broker}",
                hint=suggest(broker, BROKERS, f"one of {', '.join(BROKERS)}"),
            )


def find_property(table: Table, name: str) -> Property | str | None:
    """Returns what is the same as the model's property: that of a history, or what the stage observes.

    None if the run's steps show it. Raises ModelError if the table says nothing of it.
    """
    known = _known_properties(table)
    if _base(name) not in known:
        raise ModelError(
            f"no property of a history stands for {_base(name)} of {table.file}",
            hint=f"the table has {', '.join(known) or 'none'}",
        )
    return known[_base(name)]


def _known_properties(table: Table) -> dict[str, Property | str | None]:
    return {**table.properties, **table.observed}


def _base(name: str) -> str:
    """Returns the name of a property without its arguments."""
    return name.partition("(")[0]
