"""Executes a plan on a Kafka cluster that is started for it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from veristream.errors import ModelError
from veristream.recording.kafka.running import local_kafka
from veristream.recording.kafka.settings import read_settings
from veristream.recording.recording import Recording
from veristream.replay.counterparts import Call, Deliver, Do, Sent
from veristream.replay.course import Tell, execute
from veristream.replay.execution import Given, Seen
from veristream.replay.kafka.stage import FAIL_OVER, LOG_DEEDS, MOVE, REPLICATED, WORDS, Shape, on_stage
from veristream.replay.kafka.wire import Asked
from veristream.replay.outcome import Evidence, Offsets
from veristream.replay.plan import Name, Plan, Planned
from veristream.replay.wire import title_of

BROKERS: Final = 3
"""So many brokers have a run in which one fails, or the transaction log is replicated; others have one."""

SPARE: Final = 8
"""Where the transaction log is steered, so many more requests of each kind wait than the run has."""

PARTITIONS: Final = "PARTITIONS"
"""The constant of a model that says how many partitions there are."""

IDS: Final = "TIDS"
"""The constant of a model that says how many transactional ids its clients share."""


def execute_on_kafka(
    plan: Plan, given: Given, folder: Path, tell: Tell, say: Callable[[str], None]
) -> Seen:
    """Starts a broker, executes the plan, reads what came of it; the recording is in `folder/history`."""
    WORDS.check(plan, given.observes)
    _check_failovers(plan)
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
    return Seen(course, offsets, tuple(map(_evidence, offsets)))


def _check_failovers(plan: Plan) -> None:
    killed = [one for one in plan.steps if _deed(one) in (FAIL_OVER, MOVE)]
    if len(killed) > 1:
        raise ModelError(
            f"{killed[1].title} kills a second broker of three, and two are needed",
            hint="replay a run with one failover",
        )


def _shape(plan: Plan, given: Given) -> Shape:
    """Returns what the run needs."""
    deeds = set(map(_deed, plan.steps))
    later, unheard = waiting_answers(plan)
    steers_log = bool(deeds & LOG_DEEDS or later)
    brokers = BROKERS if deeds & REPLICATED or steers_log else 1
    return Shape(
        plan.processes,
        Asked(
            plan.held if given.steered else Counter(),
            later,
            unheard if brokers > 1 else (),
            SPARE if steers_log else 0,
        ),
        given.constants.get(PARTITIONS, 1),
        given.constants.get(IDS, 1),
        brokers,
        steers_log and given.steered,
    )


def waiting_answers(plan: Plan) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the requests whose answers come in later steps, and those whose answers nobody gets to hear.

    A client hears an answer in its next step, unless a failover loses it before.
    """
    sent, names = Counter[tuple[str, str]](), defaultdict[Name, list[str]](list)
    later, unheard = set[str](), set[str]()
    for at, step in enumerate(plan.steps):
        match step.counterpart:
            case Call(sends=kind) | Sent(sends=kind) if kind and step.adds is not None:
                sent[step.client, kind] += 1
                names[step.adds].append(title_of(kind, sent[step.client, kind], step.client))
            case Deliver(answer=expected) if step.takes is not None and names[step.takes]:
                name = names[step.takes].pop(-1 if step.newest else 0)
                if expected is None:
                    later.add(name)
                elif not (name.startswith("Produce") or _is_heard(step.takes[1], plan.steps[at + 1 :])):
                    unheard.add(name)
            case _:
                pass
    return frozenset(later), frozenset(unheard)


def _is_heard(client: str, rest: Sequence[Planned]) -> bool:
    for step in rest:
        if step.process == client:
            return True
        if _deed(step) == FAIL_OVER and step.arguments[:1] == ("1",):
            return False
    return False


def _deed(step: Planned) -> str:
    """Returns what happens besides calls and messages, if anything does."""
    return step.counterpart.what if isinstance(step.counterpart, Do) else ""


def _evidence(offsets: Offsets) -> Evidence:
    """Says where readers of committed messages stop, and where the log ends."""
    if offsets.last_stable < offsets.end:
        told = (
            f"partition {offsets.partition}: the last stable offset stands at {offsets.last_stable},"
            f" while the log ends at {offsets.end}"
        )
        return Evidence(told, shows=True)
    return Evidence(f"partition {offsets.partition}: committed up to the end of the log, {offsets.end}")
