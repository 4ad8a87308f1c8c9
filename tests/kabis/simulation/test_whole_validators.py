"""Whole validators under faults: no seed breaks a property, the seeds contain the faults, and planted bugs
are found.

`VERISTREAM_SEEDS` says how many, half of them here. A failure names its seed; `run(draw_scenario(seed))`
replays it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from veristream.kabis.ordering import mempool, validator
from veristream.kabis.ordering.mempool import Mempool
from veristream.kabis.ordering.messages import Verifier
from veristream.kabis.ordering.outbox import Outbox
from veristream.kabis.ordering.validator import ValidatorCore
from veristream_testing.simulation import crowd, validators
from veristream_testing.simulation.disk import Disk
from veristream_testing.simulation.scenario import STRATEGIES, Crash, Partition, Scenario, draw_scenario
from veristream_testing.simulation.validators import Outcome, run

SEEDS = int(os.environ.get("VERISTREAM_SEEDS", "200")) // 2
PARTS = 10
BUG_SEEDS = 100


@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_breaks_a_property(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        scenario = draw_scenario(seed)
        violation = run(scenario).violation
        assert violation is None, f"{violation}\n{scenario}"


def test_a_seed_replays() -> None:
    assert run(draw_scenario(7)) == run(draw_scenario(7))


def test_the_seeds_contain_the_faults() -> None:
    scenarios = [draw_scenario(seed) for seed in range(100)]
    strategies = {strategy for scenario in scenarios for _, strategy in scenario.byzantine}
    assert strategies == set(STRATEGIES)
    kinds = {type(fault) for scenario in scenarios for fault in scenario.faults}
    assert {Crash, Partition} <= kinds
    outcomes = [run(scenario) for scenario in scenarios]
    assert sum(outcome.restarts for outcome in outcomes) > 10
    assert sum(outcome.lost_blocks for outcome in outcomes) > 0
    assert sum(outcome.accused for outcome in outcomes) > 100
    assert sum(outcome.refused for outcome in outcomes) > 100


def believe_every_block(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ValidatorCore, "_is_valid", lambda self, value: True)


def believe_every_certificate(patch: pytest.MonkeyPatch) -> None:
    verify = Verifier._certificate

    def lenient(self: Verifier, certificate: Any) -> None:
        if certificate.step is not validator.Step.PRECOMMIT:
            verify(self, certificate)

    patch.setattr(Verifier, "_certificate", lenient)


def forget_the_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(validators, "recover", lambda records: validator.Memory())


def send_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    def hold(outbox: Outbox, effect: Callable[[], None], *, end: int, durable: int) -> bool:
        effect()
        return bool(outbox)

    patch.setattr(Outbox, "hold", hold)


def take_votes_for_offers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(validators, "waits_for_records", lambda message: False)


def answer_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ValidatorCore, "_answer", lambda self, sender, height, is_asked: None)


def begin_without_a_reason(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ValidatorCore, "_has_reason", lambda self: self.ledger.height < 50)


def keep_evidence_to_itself(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        ValidatorCore, "_accuse", lambda self, conflict: self._actions.append(validator.Accused(conflict))
    )


def release_too_much(patch: pytest.MonkeyPatch) -> None:
    release = Outbox.release
    patch.setattr(Outbox, "release", lambda outbox, durable: release(outbox, durable + 1_000))
    patch.setattr(Disk, "sync", lambda disk: None)


def serve_the_oldest_first(patch: pytest.MonkeyPatch) -> None:
    def candidates(self: Mempool, count: int) -> Iterator[bytes]:
        ready = (kept for digest, kept in self._kept.items() if self._is_ready(digest, kept))
        return (kept.encoded for kept in islice(ready, count))

    patch.setattr(Mempool, "candidates", candidates)


def take_everybody_for_one_author(patch: pytest.MonkeyPatch) -> None:
    origin = mempool._origin

    def of_nobody(encoded: bytes) -> Any:
        found = origin(encoded)
        return mempool._Origin("", found.begins, found.ends)

    patch.setattr(mempool, "_origin", of_nobody)


def punish_unknown_kinds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(validator, "is_of_unknown_kind", lambda encoded: False)


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (serve_the_oldest_first, "fairness"),
        (take_everybody_for_one_author, "fairness"),
        (punish_unknown_kinds, "verification"),
    ],
)
def test_a_bug_planted_in_a_crowd_is_found(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], found: str
) -> None:
    plant(monkeypatch)
    find_violation(crowd.run, found)


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (believe_every_block, "validity"),
        (believe_every_certificate, "agreement|certificate"),
        (forget_the_records, "consistency|accountability|agreement"),
        (send_before_it_is_durable, "consistency|accountability|agreement"),
        (take_votes_for_offers, "consistency|accountability|agreement"),
        (release_too_much, "consistency|accountability|agreement"),
        (answer_nobody, "termination"),
        (begin_without_a_reason, "quiet"),
        (keep_evidence_to_itself, "accountability"),
    ],
)
def test_a_planted_bug_is_found(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], found: str
) -> None:
    plant(monkeypatch)
    find_violation(run, found)


def find_violation(run: Callable[[Scenario], Outcome], found: str) -> None:
    """Fails unless a seed breaks one of these properties, and before that no other."""
    for seed in range(BUG_SEEDS):
        violation = run(draw_scenario(seed)).violation
        if violation is not None:
            assert violation.split(":")[0] in found.split("|"), f"seed {seed}: {violation}"
            return
    pytest.fail("no seed finds it")
