"""The simulation finds what it is there for: each bug, planted by a patch, is found within the usual seeds.

`pytest -rP` shows for each bug the seed, and the few faults and inputs that suffice.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

import pytest

from veristream.kabis.ordering.log import Contradiction, RoundLog
from veristream.kabis.ordering.messages import Committee, Step, Value, Vote
from veristream.kabis.ordering.tendermint import Tendermint
from veristream_testing.simulation.consensus import run
from veristream_testing.simulation.disk import Disk
from veristream_testing.simulation.scenario import Scenario, draw_scenario, shrink

SEEDS = 200

Plant = Callable[[pytest.MonkeyPatch], None]


def _is_valid(machine: Tendermint, value: Value) -> bool:
    return machine.application.valid(value)


def skip_the_lock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tendermint, "_may_prevote_fresh", _is_valid)
    patch.setattr(Tendermint, "_may_prevote_proved", lambda machine, value, _: _is_valid(machine, value))


def ignore_the_valid_round(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tendermint, "_may_prevote_proved", lambda machine, value, _: _is_valid(machine, value))


def count_messages_not_senders(patch: pytest.MonkeyPatch) -> None:
    add_vote = RoundLog.add_vote
    tallies: dict[int, tuple[RoundLog, Counter[tuple[Step, bytes | None]]]] = {}

    def tally(log: RoundLog) -> Counter[tuple[Step, bytes | None]]:
        return tallies.setdefault(id(log), (log, Counter()))[1]

    def add(log: RoundLog, vote: Vote) -> Contradiction | None:
        tally(log)[(vote.step, vote.identifier)] += 1
        log.kept += 1
        return add_vote(log, vote)

    patch.setattr(RoundLog, "add_vote", add)
    patch.setattr(RoundLog, "count", lambda log, step, identifier: tally(log)[(step, identifier)])


def forget_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Disk, "recover", lambda disk: [])


def never_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Disk, "sync", lambda disk: None)


def never_resend(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tendermint, "_resend", lambda machine: None)


def quorum_of_twice_f(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Committee, "quorum", property(lambda committee: 2 * committee.faults))


BUGS: dict[Plant, set[str]] = {
    skip_the_lock: {"agreement"},
    ignore_the_valid_round: {"agreement"},
    count_messages_not_senders: {"certificate", "verification"},
    forget_the_log: {"consistency"},
    never_sync: {"consistency"},
    never_resend: {"termination"},
    quorum_of_twice_f: {"agreement"},
}


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        plant(patch)
        found = next((seed for seed in range(SEEDS) if run(draw_scenario(seed)).violation), None)
        assert found is not None, f"{plant.__name__} is not found in {SEEDS} seeds"
        violation = _kind(draw_scenario(found))
        smallest = shrink(draw_scenario(found), lambda scenario: _kind(scenario) == violation)
        outcome = run(smallest, tracing=True)
        assert violation in BUGS[plant]
        sys.stdout.write(f"{plant.__name__}: seed {found}, {outcome.violation}\n{smallest}\n")
        sys.stdout.write(f"{outcome.inputs} inputs:\n" + "\n".join(outcome.trace) + "\n")
    assert run(smallest).violation is None, "the scenario fails without the bug too"


def _kind(scenario: Scenario) -> str | None:
    violation = run(scenario).violation
    return None if violation is None else violation.split(":")[0]
