"""Everything under faults: no seed breaks a property, the seeds contain the faults, planted bugs are found.

`VERISTREAM_SEEDS` says how many. A failure names its seed; `run(draw_trouble(seed))` replays it.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from tests.kabis.simulation.test_planted_bugs import count_messages_not_senders, skip_the_lock
from veristream.kabis.client import fetching
from veristream.kabis.client.consumer import core as consumer_core
from veristream.kabis.client.producer.core import ProducerCore
from veristream.kabis.ledger import rules
from veristream.kabis.ledger.state import Admission
from veristream.kabis.ordering.validator import ValidatorCore
from veristream.kabis.protocol.batch import Batch, BatchError
from veristream.kabis.protocol.members import Members
from veristream.kabis.protocol.outcomes import Reason
from veristream.kabis.protocol.receipts import CommitCertificate
from veristream_testing.simulation.scenario import STRATEGIES, Crash, Partition
from veristream_testing.simulation.stores import FrailLog
from veristream_testing.simulation.trouble import STORAGE_FAULTS, Attack, draw_trouble
from veristream_testing.simulation.whole import run

SEEDS = int(os.environ.get("VERISTREAM_SEEDS", "200"))
PARTS = 20
BUG_SEEDS = 200

Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_breaks_a_property(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        trouble = draw_trouble(seed)
        violation = run(trouble).violation
        assert violation is None, f"{violation}\n{trouble}"


def test_a_seed_replays() -> None:
    for seed in (3, 14, 15):
        assert run(draw_trouble(seed)) == run(draw_trouble(seed))


def test_the_seeds_contain_every_fault() -> None:
    troubles = [draw_trouble(seed) for seed in range(200)]
    lies = Counter(lie for trouble in troubles for _, lie in trouble.storage)
    attacks = Counter(trouble.attack for trouble in troubles)
    strategies = Counter(strategy for trouble in troubles for _, strategy in trouble.validators.byzantine)
    assert set(lies) == set(STORAGE_FAULTS) and min(lies.values()) >= 10
    assert set(attacks) == {None, *Attack} and min(attacks.values()) >= 20
    assert set(strategies) == set(STRATEGIES) and min(strategies.values()) >= 5
    faults = Counter(type(fault) for trouble in troubles for fault in trouble.validators.faults)
    assert faults[Crash] >= 20 and faults[Partition] >= 20
    assert sum(len(trouble.falls) for trouble in troubles) >= 200
    assert sum(len(trouble.cuts) for trouble in troubles) >= 100
    assert sum(trouble.validators.drop > 0 for trouble in troubles) >= 20


def test_the_faults_have_effects() -> None:
    outcomes = [run(draw_trouble(seed)) for seed in range(40)]
    assert sum(outcome.acknowledged for outcome in outcomes) >= 200
    assert min(outcome.delivered for outcome in outcomes) >= 1
    assert sum(outcome.falls for outcome in outcomes) >= 40
    assert sum(outcome.recovered for outcome in outcomes) >= 5
    assert sum(outcome.suspicions for outcome in outcomes) >= 50
    assert sum(outcome.producers_accused for outcome in outcomes) >= 4
    assert sum(outcome.false_blocks for outcome in outcomes) >= 50
    assert sum(outcome.torn for outcome in outcomes) >= 1
    assert sum(outcome.damaged for outcome in outcomes) >= 4
    assert sum(outcome.validators.restarts for outcome in outcomes) >= 5
    assert sum(outcome.validators.accused for outcome in outcomes) >= 20


def accept_a_wrong_previous_hash(patch: pytest.MonkeyPatch) -> None:
    require = rules.require

    def lenient(condition: bool, reason: Reason, detail: str = "") -> None:
        require(condition or reason is Reason.WRONG_PREVIOUS, reason, detail)

    patch.setattr(rules, "require", lenient)


def admit_what_nobody_signed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rules, "_require_signed", lambda signed, public, check: None)
    patch.setattr(rules, "_require_statement", lambda context, statement, digest, public: None)
    patch.setattr(ValidatorCore, "_find_bad_receipt", lambda self, transaction: None)


def deliver_without_comparing_the_root(patch: pytest.MonkeyPatch) -> None:
    def check_answer(admission: Admission, data: bytes) -> Batch:
        batch = Batch.decode(data)
        if batch.header != admission.signed.header:
            raise fetching.WrongAnswerError("another batch than was asked for")
        return batch

    patch.setattr(consumer_core, "check_answer", check_answer)


def deliver_without_comparing_the_header(patch: pytest.MonkeyPatch) -> None:
    def check_answer(admission: Admission, data: bytes) -> Batch:
        batch = Batch.decode(data)
        try:
            batch.verify_contents()
        except BatchError as error:
            raise fetching.WrongAnswerError(str(error)) from error
        return batch

    patch.setattr(consumer_core, "check_answer", check_answer)


def acknowledge_with_f_receipts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Members, "receipts_needed", property(lambda members: members.faults))


def believe_every_block(patch: pytest.MonkeyPatch) -> None:
    def verify(self: CommitCertificate, *_: object) -> None:
        """Believes it."""

    patch.setattr(CommitCertificate, "verify", verify)


def give_receipts_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FrailLog, "sync", lambda self, now=False: self.end)
    patch.setattr(FrailLog, "durable", property(lambda self: self.end))


def forget_the_journal(patch: pytest.MonkeyPatch) -> None:
    know_chain = ProducerCore._know_chain
    patch.setattr(ProducerCore, "_know_chain", lambda self, lane, batches: know_chain(self, lane, ()))


def never_submit_again(patch: pytest.MonkeyPatch) -> None:
    submit = ProducerCore._submit

    def once(self: ProducerCore, flight: object, now_ms: int) -> bool:
        return getattr(flight, "validators_asked", 0) > 0 or submit(self, flight, now_ms)  # type: ignore[arg-type]

    patch.setattr(ProducerCore, "_submit", once)


def keep_conflicts_to_itself(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ValidatorCore, "_accuse_producer", lambda self, encoded: None)


BUGS: dict[Plant, set[str]] = {
    skip_the_lock: {"agreement"},
    count_messages_not_senders: {"certificate", "verification", "agreement"},
    accept_a_wrong_previous_hash: {"chain"},
    deliver_without_comparing_the_root: {"loss"},
    deliver_without_comparing_the_header: {"loss"},
    acknowledge_with_f_receipts: {"loss"},
    admit_what_nobody_signed: {"forgery", "accountability"},
    believe_every_block: {"verification"},
    give_receipts_before_the_flush: {"loss", "accountability", "termination"},
    forget_the_journal: {"validity", "accountability"},
    never_submit_again: {"termination"},
    keep_conflicts_to_itself: {"termination"},
}


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        plant(patch)
        for seed in range(BUG_SEEDS):
            violation = run(draw_trouble(seed)).violation
            if violation is not None:
                break
        else:
            pytest.fail(f"{plant.__name__} is not found in {BUG_SEEDS} seeds")
    sys.stdout.write(f"{plant.__name__}: seed {seed}, {violation}\n{draw_trouble(seed)}\n")
    assert violation.split(":")[0] in BUGS[plant]
    assert run(draw_trouble(seed)).violation is None, "the seed fails without the bug too"
