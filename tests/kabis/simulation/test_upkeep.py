"""A chain that is kept up under faults: no seed breaks a property, much happens, planted bugs are found.

`VERISTREAM_SEEDS` says how many, a quarter of them here, most of which are long tests. A failure names its
seed; `run(draw_plan(seed))` replays it.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from veristream.kabis.client.checkpoint import Checkpoint
from veristream.kabis.cluster import rejoining
from veristream.kabis.ledger import access, follower, group_rules, retention, rules, snapshot
from veristream.kabis.ledger.access import Span
from veristream.kabis.ledger.context import Context
from veristream.kabis.ledger.follower import FalseBlockError, Followed, Follower
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.snapshot import Manifest
from veristream.kabis.ledger.state import State
from veristream.kabis.ledger.succession import Succession
from veristream.kabis.log.disk.log import Retention as LogRetention
from veristream.kabis.ordering import asking
from veristream.kabis.ordering.outbox import Outbox
from veristream.kabis.ordering.seats import OBSERVER, Seats
from veristream.kabis.ordering.store import BlockStore
from veristream.kabis.ordering.tendermint import Identity
from veristream.kabis.ordering.validator import ValidatorCore
from veristream.kabis.protocol.actions import Quota
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import SignatureError
from veristream.kabis.protocol.members import Members
from veristream.kabis.storage.admission import Waiting
from veristream_testing.simulation.chain import check_signature
from veristream_testing.simulation.scenario import Crash
from veristream_testing.simulation.upkeep.offers import Asking
from veristream_testing.simulation.upkeep.plan import (
    Absence,
    Decay,
    Loss,
    Order,
    Plan,
    SnapshotLie,
    draw_plan,
    simplify_plan,
)
from veristream_testing.simulation.upkeep.turns import Kind
from veristream_testing.simulation.upkeep.upkeep import run

SEEDS = int(os.environ.get("VERISTREAM_SEEDS", "100")) // 4
FEW = 6
PARTS = 6
BUG_SEEDS = 100

Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_breaks_a_property(part: int) -> None:
    require_no_violation(range(part, FEW, PARTS))


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_no_further_seed_breaks_a_property(part: int) -> None:
    require_no_violation(range(FEW + part, SEEDS, PARTS))


def require_no_violation(seeds: Iterable[int]) -> None:
    """Fails with the plan of the first seed that breaks a property."""
    for seed in seeds:
        plan = draw_plan(seed)
        violation = run(plan).violation
        assert violation is None, f"{violation}\n{plan}"


def test_a_seed_replays() -> None:
    assert run(draw_plan(3)) == run(draw_plan(3))


def test_the_seeds_contain_everything() -> None:
    plans = [draw_plan(seed) for seed in range(200)]
    lies = Counter(lie for plan in plans for _, lie in plan.lies)
    orders = Counter(order for plan in plans for order in plan.orders)
    mishaps = Counter(type(mishap) for plan in plans for mishap in plan.mishaps)
    assert set(lies) == set(SnapshotLie) and min(lies.values()) >= 10
    assert set(orders) == set(Order) and min(orders.values()) >= 40
    assert set(mishaps) == {Decay, Loss, Absence} and min(mishaps.values()) >= 60
    assert sum(plan.version == 1 for plan in plans) >= 40
    assert {plan.gap for plan in plans} == {0, 3, 100}
    turns = Counter(turn.kind for plan in plans for turn in plan.turns)
    assert set(turns) == set(Kind) and min(turns.values()) >= 15
    assert sum(len(turn.afterlives) for plan in plans for turn in plan.turns) >= 12
    assert sum(len(liars_that_leave(plan)) for plan in plans) >= 20
    crashes = [
        fault for plan in plans for fault in plan.trouble.validators.faults if isinstance(fault, Crash)
    ]
    assert len(crashes) >= 150


def liars_that_leave(plan: Plan) -> set[int]:
    """The validators that lie before they leave, and go on."""
    leaving = {index for turn in plan.turns for index in turn.leaving}
    return leaving & {index for index, _ in plan.trouble.validators.byzantine}


def test_no_more_validators_fail_than_the_chain_tolerates() -> None:
    """This holds for every set of validators, even if those count that lie once they have left."""
    for plan in map(draw_plan, range(200)):
        liars = {index for index, _ in plan.trouble.validators.byzantine}
        liars |= {index for turn in plan.turns for index, _ in turn.afterlives}
        liars |= {each.index for turn in plan.turns for each in turn.joining if each.strategy is not None}
        lost = sum(isinstance(mishap, Loss) for mishap in plan.mishaps)
        present = list(range(plan.trouble.validators.size))
        sets = [present] + [present := turn.apply(present) for turn in plan.turns]
        for indices in sets:
            assert len(indices) in (4, 7) and len(set(indices)) == len(indices)
            assert len(liars & set(indices)) + lost <= (len(indices) - 1) // 3
        assert len(plan.trouble.storage) <= plan.faults_least <= plan.faults_most


def test_a_simpler_plan_has_one_thing_less() -> None:
    plan = next(plan for plan in map(draw_plan, range(50)) if plan.mishaps and plan.orders and plan.turns)
    simpler = list(simplify_plan(plan))
    assert replace(plan, mishaps=()) in simpler and replace(plan, orders=plan.orders[1:]) in simpler
    assert replace(plan, turns=()) in simpler
    assert plan not in simpler


@pytest.mark.long
def test_everything_happens() -> None:
    counts: Counter[str] = Counter()
    for seed in range(12):
        counts.update(dict(run(draw_plan(seed)).counts))
    least = {
        "snapshots taken": 250,
        "blocks pruned": 500,
        "validators joined by snapshot": 10,
        "validators rejoined": 3,
        "clients opened by snapshot": 8,
        "clients that missed blocks": 2,
        "false snapshots offered": 40,
        "blocks followed by storage": 500,
        "batches released": 8,
        "upgrades": 2,
        "wishes refused by storage": 200,
        "SetMembers": 10,
        "forged by former validators": 100,
        "SetQuota": 8,
        "Grant": 8,
    }
    assert {name: counts[name] for name in least if counts[name] < least[name]} == {}


def accept_a_snapshot_without_a_quorum(patch: pytest.MonkeyPatch) -> None:
    def believe(genesis: Genesis, manifest: Manifest, *_: object) -> Succession:
        succession = Succession(genesis)
        for handover in manifest.handovers:
            succession.add(handover)
        return succession

    for module in (asking, snapshot):
        patch.setattr(module, "verify_manifest", believe)


def believe_the_leaves(patch: pytest.MonkeyPatch) -> None:
    class Anything(bytes):
        def __eq__(self, other: object) -> bool:
            return True

        def __ne__(self, other: object) -> bool:
            return False

        __hash__ = bytes.__hash__

    patch.setattr(snapshot, "root_of", lambda node: Anything())


def prune_before_the_snapshot_is_durable(patch: pytest.MonkeyPatch) -> None:
    decided = BlockStore.decided

    def prune(self: BlockStore, ledger: Ledger, header: Any) -> Any:
        due = decided(self, ledger, header)
        if due is not None:
            self._log.retain(LogRetention(low_water=due[0].header.height))
        return due

    patch.setattr(BlockStore, "decided", prune)


def derive_nothing_from_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(State, "derive", access.derive_access)


def rejoin_without_votes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rejoining, "VOTED_AHEAD", -1_000_000)


def check_no_quota_in_blocks(patch: pytest.MonkeyPatch) -> None:
    require_turn, judge, judging = rules.require_turn, Ledger._try, list[bool]()

    def require(context: Context, name: str) -> None:
        if not judging:
            require_turn(context, name)

    def lenient(self: Ledger, *given: Any) -> Any:
        judging.append(True)
        try:
            return judge(self, *given)
        finally:
            judging.pop()

    patch.setattr(rules, "require_turn", require)
    patch.setattr(Ledger, "_try", lenient)


def apply_no_quota_to_batches(patch: pytest.MonkeyPatch) -> None:
    submit = rules._submit

    def lenient(context: Context, transaction: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(rules, "require_turn", lambda context, name: None)
            return submit(context, transaction)

    patch.setattr(rules, "_submit", lenient)


def count_no_groups(patch: pytest.MonkeyPatch) -> None:
    count_group = group_rules._count_group

    def lenient(state: State, name: str) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(State, "quota", Quota(0, 0, 0))
            count_group(state, name)

    patch.setattr(group_rules, "_count_group", lenient)


def let_everything_wait_at_storage(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Waiting, "find_excess", lambda self, producer, size_bytes, limits: None)


def upgrade_one_validator_too_early(patch: pytest.MonkeyPatch) -> None:
    make, apply = ValidatorCore.__post_init__, Ledger.apply

    def mark(self: ValidatorCore) -> None:
        make(self)
        vars(self.ledger)["is_early"] = self.me == 1

    def hasten(self: Ledger, *given: Any) -> Any:
        effects = apply(self, *given)
        protocol = self.protocol
        if vars(self).get("is_early") and protocol.next_height == self.height + 2:
            self._activate(protocol.next_version or 0)
        return effects

    patch.setattr(ValidatorCore, "__post_init__", mark)
    patch.setattr(Ledger, "apply", hasten)


def activate_a_version_too_late(patch: pytest.MonkeyPatch) -> None:
    apply = Ledger.apply

    def delay(self: Ledger, *given: Any) -> Any:
        due = self.protocol
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Ledger, "_activate", lambda self, version: None)
            effects = apply(self, *given)
        if due.next_version is not None and due.next_height == self.height:
            self._activate(due.next_version)
        return effects

    patch.setattr(Ledger, "apply", delay)


def enforce_a_rule_in_its_own_block(patch: pytest.MonkeyPatch) -> None:
    def holds_at(self: Span, height: int) -> bool:
        return self.begun_height <= height and (self.ended_height is None or height <= self.ended_height)

    patch.setattr(Span, "holds_at", holds_at)


def keep_a_right_that_was_revoked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Span, "holds_at", lambda self, height: self.begun_height < height)


def go_back_behind_the_checkpoint(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Checkpoint, "height", property(lambda self: 0))


def release_too_much(patch: pytest.MonkeyPatch) -> None:
    is_beyond = retention._is_beyond

    def lenient(limits: Any, kept: int, age_ms: int) -> bool:
        return is_beyond(limits, kept, age_ms) or (kept > 1 and kept == limits.batches)

    patch.setattr(retention, "_is_beyond", lenient)


def send_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    def hold(outbox: Outbox, effect: Callable[[], None], *, end: int, durable: int) -> bool:
        effect()
        return bool(outbox)

    patch.setattr(Outbox, "hold", hold)


def accept_an_old_set(patch: pytest.MonkeyPatch) -> None:
    """A client believes blocks that any members up to their height certify."""
    follow = Follower.follow

    def lenient(self: Follower, certified: CertifiedBlock, now_ms: int) -> Followed | None:
        try:
            return follow(self, certified, now_ms)
        except FalseBlockError:
            proposer = certified.block.header.proposer
            for _, members in [(0, self.genesis.members), *self.ledger.memberships.changes]:
                with pytest.MonkeyPatch.context() as inner:
                    inner.setattr(Ledger, "members", members)
                    if members.index_of(proposer) is not None:
                        with suppress(FalseBlockError):
                            return follow(self, certified, now_ms)
            raise

    patch.setattr(Follower, "follow", lenient)


def accept_a_snapshot_of_an_old_set(patch: pytest.MonkeyPatch) -> None:
    for module in (asking, follower):
        patch.setattr(module, "require_changes", lambda manifest, known: None)


def forget_the_members_of_blocks(patch: pytest.MonkeyPatch) -> None:
    """Whoever begins again asks former validators, though its own blocks say that they have left."""
    patch.setattr(Asking, "heed", lambda self, changes, height: None)


def begin_one_height_too_early(patch: pytest.MonkeyPatch) -> None:
    """One validator takes the next members for those of the height before."""
    make = Seats._make

    def hasten(self: Seats, height: int) -> Any:
        return make(self, height + 1 if self.name == "v1" else height)

    patch.setattr(Seats, "_make", hasten)


def begin_too_early_everywhere(patch: pytest.MonkeyPatch) -> None:
    """All validators, all clients and the ledger agree on it; only the oracle does not."""
    members_at = State.members_at
    patch.setattr(State, "members_at", lambda self, genesis, height: members_at(self, genesis, height + 1))
    patch.setattr(Succession, "at", begin_early(Succession.at))


def begin_early(at: Callable[[Succession, int], Members]) -> Callable[[Succession, int], Members]:
    return lambda self, height: at(self, height + 1)


def vote_before_it_is_in_force(patch: pytest.MonkeyPatch) -> None:
    """A validator that joins votes as soon as its change is ordered."""
    make = Seats._make

    def hasten(self: Seats, height: int) -> Any:
        seat, pending = make(self, height), self._ledger.pending_members
        index = None if pending is None else pending[1].index_of(self.name)
        if index is None or seat.identity.index != OBSERVER:
            return seat
        committee = seat.identity.committee
        return replace(seat, identity=Identity(index % committee.size, committee, self._first.sign))

    patch.setattr(Seats, "_make", hasten)


def count_votes_of_former_keys(patch: pytest.MonkeyPatch) -> None:
    """A vote counts if it is signed by whoever sat there before."""
    make = Seats._make

    def lenient(self: Seats, height: int) -> Any:
        seat = make(self, height)
        former = [members for begin, members in self._all() if begin < height]

        def signature(number: int, data: bytes, signed: bytes) -> None:
            for members in former:
                if number < len(members.validators):
                    with suppress(SignatureError):
                        check_signature(members.validator_keys[number], data, signed)
                        return
            seat.verifier.signature(number, data, signed)

        return replace(seat, verifier=replace(seat.verifier, signature=signature))

    patch.setattr(Seats, "_make", lenient)


BUGS: dict[Plant, set[str]] = {
    send_before_it_is_durable: {"consistency", "accountability", "agreement"},
    accept_an_old_set: {"members", "agreement"},
    accept_a_snapshot_of_an_old_set: {"snapshot", "agreement"},
    forget_the_members_of_blocks: {"snapshot", "agreement"},
    begin_one_height_too_early: {"verification", "validity", "termination"},
    begin_too_early_everywhere: {"members", "certificate"},
    vote_before_it_is_in_force: {"verification"},
    count_votes_of_former_keys: {"certificate", "accountability"},
    accept_a_snapshot_without_a_quorum: {"snapshot", "agreement"},
    believe_the_leaves: {"snapshot"},
    prune_before_the_snapshot_is_durable: {"durability", "termination"},
    derive_nothing_from_a_snapshot: {"validity", "verification", "quota", "termination"},
    rejoin_without_votes: {"consistency", "accountability"},
    check_no_quota_in_blocks: {"quota"},
    apply_no_quota_to_batches: {"quota"},
    count_no_groups: {"quota"},
    let_everything_wait_at_storage: {"quota"},
    upgrade_one_validator_too_early: {"validity", "upgrade"},
    activate_a_version_too_late: {"upgrade"},
    enforce_a_rule_in_its_own_block: {"access"},
    keep_a_right_that_was_revoked: {"access"},
    go_back_behind_the_checkpoint: {"checkpoint"},
    release_too_much: {"retention"},
}


@pytest.mark.long
@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        plant(patch)
        plan, violation = find_violation([draw_plan(seed) for seed in range(BUG_SEEDS)])
    sys.stdout.write(f"{plant.__name__}: seed {plan.seed}, {violation}\n{plan}\n")
    assert violation.split(":")[0] in BUGS[plant]
    assert run(plan).violation is None, "the seed fails without the bug too"


def find_violation(plans: Sequence[Plan]) -> tuple[Plan, str]:
    """Returns the first plan that breaks a property; fails if there is none."""
    for plan in plans:
        violation = run(plan).violation
        if violation is not None:
            return plan, violation
    pytest.fail(f"nothing is found in {len(plans)} seeds")
