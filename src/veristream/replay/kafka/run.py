"""Executes a plan on a Kafka cluster that is started for it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from veristream.errors import ModelError
from veristream.recording.kafka.running import local_kafka
from veristream.recording.kafka.settings import read_settings
from veristream.recording.recording import Recording
from veristream.replay.counterparts import Call, Deliver, Do, Sent
from veristream.replay.course import Course, Tell, execute
from veristream.replay.kafka.stage import FAIL_OVER, LOG_DEEDS, REPLICATED, Shape, check_plan, on_stage
from veristream.replay.kafka.wire import Asked, name_of
from veristream.replay.outcome import Offsets
from veristream.replay.plan import Name, Plan, Planned

BROKERS: Final = 3
"""So many brokers have a run in which one fails, or the transaction log is replicated; others have one."""

SPARE: Final = 8
"""Where the transaction log is steered, so many more requests of each kind wait than the run has."""


@dataclass(frozen=True, slots=True)
class Given:
    """Where a plan is executed: settings as `veristream record` has them, how long a step may wait."""

    settings: Mapping[str, str]
    partitions: int
    seconds: float
    title: str
    steered: bool = True
    ids: int = 1


@dataclass(frozen=True, slots=True)
class Seen:
    """What happened: how far reality took the run, and where readers stop in the end."""

    course: Course
    offsets: tuple[Offsets, ...]


def execute_on_kafka(
    plan: Plan, given: Given, folder: Path, tell: Tell, say: Callable[[str], None]
) -> Seen:
    """Starts a broker, executes the plan, reads what came of it; the recording is in `folder/history`."""
    check_plan(plan)
    settings = read_settings(given.settings)
    shape = _shape(plan, given)
    if shape.holds_markers and shape.partitions >= BROKERS:
        raise ModelError(
            f"markers to {shape.partitions} partitions cannot be told apart, since some have one leader",
            hint=f"replay a run with at most {BROKERS - 1} partitions",
        )
    several = shape.brokers > 1
    say("starting Kafka")
    with (
        local_kafka(folder / "brokers", settings, shape.brokers, between=several) as kafka,
        Recording(folder / "history", "kafka", given.title, settings.flat()) as recording,
    ):
        with on_stage(kafka, recording, shape, given.seconds) as stage:
            course = execute(plan, stage, tell, steered=given.steered)
            say("reading what came of it")
            offsets = stage.observe()
        recording.finish()
        say("stopping Kafka")
    return Seen(course, offsets)


def _shape(plan: Plan, given: Given) -> Shape:
    """Returns what the run needs."""
    deeds = {step.counterpart.what for step in plan.steps if isinstance(step.counterpart, Do)}
    later, unheard = waiting_answers(plan)
    steers_log = bool(deeds & LOG_DEEDS or later)
    brokers = BROKERS if deeds & REPLICATED or steers_log else 1
    spare = SPARE if steers_log else 0
    asked = Asked(_counts(plan, given), later, unheard if brokers > 1 else (), spare)
    is_log_steered = steers_log and given.steered
    return Shape(plan.processes, asked, given.partitions, given.ids, brokers, is_log_steered)


def _counts(plan: Plan, given: Given) -> Counter[tuple[str, str]]:
    """Returns how many messages of each kind the run has of each client; what is beyond is not held."""
    return Counter(
        (step.process, step.counterpart.sends)
        for step in plan.steps
        if isinstance(step.counterpart, Call | Sent) and step.counterpart.sends and given.steered
    )


def waiting_answers(plan: Plan) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the requests whose answers come in later steps, and those whose answers nobody gets to hear.

    A client hears an answer in its next step, unless a failover loses it before.
    """
    sent, names = Counter[tuple[str, str]](), defaultdict[Name, list[str]](list)
    later, unheard = set[str](), set[str]()
    for at, step in enumerate(plan.steps):
        match step.counterpart:
            case Call(sends=kind) | Sent(sends=kind) if kind and step.message is not None:
                sent[step.process, kind] += 1
                names[step.message].append(name_of(kind, sent[step.process, kind], step.process))
            case Deliver(answer=expected) if step.message is not None and names[step.message]:
                name = names[step.message].pop()
                if expected is None:
                    later.add(name)
                elif not (name.startswith("Produce") or _is_heard(step.sender, plan.steps[at + 1 :])):
                    unheard.add(name)
            case _:
                pass
    return frozenset(later), frozenset(unheard)


def _is_heard(client: str, rest: Sequence[Planned]) -> bool:
    for step in rest:
        if step.process == client:
            return True
        if step.counterpart == Do(FAIL_OVER) and step.arguments[:1] == ("1",):
            return False
    return False
