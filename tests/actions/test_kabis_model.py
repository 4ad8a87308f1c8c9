"""The Kabis models: expected verdicts, agreement of the engines, and the contents of counterexamples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import veristream as vs
from tests.known import differences_of
from tests.missing import is_missing
from veristream.errors import EnvironmentFailure
from veristream.expected import KnownModel, read_known
from veristream.export.promela import to_promela
from veristream.export.tla import to_tla
from veristream.ir.network import Network
from veristream.ir.property import Always
from veristream.library import load
from veristream.verdict import Result, Trace, Violated, word
from veristream_testing.peers import find_spin, find_tlc, run_spin, run_tlc
from veristream_testing.states import explore

FOLDER = Path(__file__).resolve().parents[2] / "models" / "kabis"
KNOWN = read_known(FOLDER)
FILES = sorted(path.name for path in FOLDER.glob("*.py"))
SECONDS_MAX = 300.0
STATES_MAX = 100_000

QUICK = [
    "kabis_storage_paper",
    "kabis_storage_paper_one_receipt",
    "kabis_storage_paper_all_receipts",
    "kabis_validate_printed",
    "kabis_validate_meant",
    "kabis_identifiers_prototype",
    "kabis_groups_by_owner",
    "kabis_tendermint",
    "kabis_tendermint_unlocked",
    "kabis_reconfiguration_unaided",
    "kabis_reconfiguration_at_once",
    "kabis_reconfiguration_no_expiry",
    "kabis_snapshots_no_quorum",
    "kabis_snapshots_forgotten_votes",
    "kabis_durability",
    "kabis_durability_sent_first",
    "kabis_access_served",
    "kabis_access_behind",
    "kabis_access_reopened",
]
"""The models that `make test` also checks."""

Small = tuple[str, str, Mapping[str, int], int]
SMALL: list[Small] = [
    ("guarantees.py", "validating_total_order", {"TOTAL": 1, "CONSUMERS": 1}, 59),
    ("guarantees.py", "validating_total_order", {"TOTAL": 1, "FIRST_BYZANTINE": 1, "LIES": 1}, 817),
    ("storage.py", "consumers_agree", {"EVENTS": 1, "LENGTH": 1}, 580),
    ("storage.py", "consumers_agree", {"EVENTS": 1, "LENGTH": 1, "RECEIPTS": 0, "HOLES": 1}, 1_380),
    ("validate.py", "no_empty_record", {"CONSUMERS": 1}, 120),
    ("validate.py", "no_empty_record", {"CONSUMERS": 1, "RULE": 1}, 218),
    ("identifiers.py", "no_forgery", {"PUSHES": 1, "ATTACKS": 1}, 63),
    ("groups.py", "one_owner_a_generation", {"EVENTS": 1}, 2_377),
    ("tendermint.py", "agreement", {"HONEST": 2, "HASTY": 1}, 236),
    ("reconfiguration.py", "clients_agree", {"HEIGHTS": 3, "SETS": 2, "TIMES": 1}, 3_867),
    (
        "reconfiguration.py",
        "clients_agree",
        {"HEIGHTS": 4, "DELAY": 1, "CLIENTS": 1, "TIMES": 0},
        1_062,
    ),
    ("snapshots.py", "no_rollback", {"HEIGHTS": 2, "HONEST": 2}, 3_780),
    ("durability.py", "agreement", {"HONEST": 2, "CRASHES": 1}, 219),
    ("durability.py", "agreement", {"CRASHES": 0}, 590),
    ("access.py", "reads_with_a_grant", {"HEIGHTS": 3, "CLIENTS": 1}, 3_317),
]
"""Model, an invariant that holds, constants, and the number of states up to symmetry."""

LARGER: list[Small] = [
    ("reconfiguration.py", "clients_agree", {"CLIENTS": 1}, 142_977),
    ("snapshots.py", "no_rollback", {"HEIGHTS": 2}, 59_038),
    ("durability.py", "agreement", {}, 8_151),
    ("access.py", "reads_with_a_grant", {"HEIGHTS": 3}, 10_967),
    ("access.py", "revocation_allows_nothing", {"HEIGHTS": 3, "CLOSED": 0}, 59_410),
]
"""The same for SPIN, which is fast enough for them."""


def name_of(small: Small) -> str:
    """What a test is called."""
    return "-".join([small[0], *(f"{name}={value}" for name, value in small[2].items())])


def check(file: str, name: str, **constants: int) -> Result:
    """The result of one property."""
    (result,) = vs.check(FOLDER / file, [name], constants=constants)
    return result


def steps_of(trace: Trace | None) -> list[str]:
    """The actions of a run."""
    assert trace is not None
    return [step.action for step in trace.steps if step.action is not None]


@pytest.mark.models
@pytest.mark.parametrize("model", KNOWN, ids=[model.name for model in KNOWN])
def test_is_as_expected(model: KnownModel) -> None:
    """Verdicts, counts and vacuity are those of expected.toml."""
    assert model.expectations
    assert differences_of(model) == []


@pytest.mark.parametrize("name", QUICK)
def test_the_quick_ones_are_as_expected(name: str) -> None:
    (model,) = (one for one in KNOWN if one.name == name)
    assert differences_of(model) == []


@pytest.mark.parametrize("file", FILES)
def test_no_property_is_forgotten(file: str) -> None:
    """Each property of the models has an expected verdict in some run of it."""
    listed = {
        one.property.split("(")[0]
        for model in KNOWN
        if model.path.name == file
        for one in model.expectations
    }
    assert {one.name.split("(")[0] for one in load(FOLDER / file).properties} == listed


def test_every_switch_is_turned() -> None:
    """For each defence, some listed run switches it off, which shows that it is needed."""
    turned = {(model.path.name, name) for model in KNOWN for name in model.constants}
    switches = {
        (file, line.split(" = ")[0])
        for file in FILES
        for line in (FOLDER / file).read_text(encoding="utf-8").splitlines()
        if " = constant(True)" in line or " = constant(False)" in line
    }
    assert len(switches) == 38
    assert switches - turned == set()


@pytest.mark.parametrize("small", SMALL, ids=map(name_of, SMALL))
def test_interpreter_counts_the_same(small: Small) -> None:
    """The interpreter does not use symmetry, so it counts the unreduced states."""
    file, name, constants, states = small
    result = check(file, name, **constants)
    oracle = explore(load(FOLDER / file, constants), STATES_MAX)
    assert oracle.complete
    assert word(result.verdict) == "holds"
    assert result.effort.states == states
    unreduced = result.effort.unreduced_states
    assert len(oracle.states) == (states if unreduced is None else unreduced)


@pytest.mark.peers
@pytest.mark.parametrize("small", SMALL, ids=map(name_of, SMALL))
def test_tlc_counts_the_same(small: Small) -> None:
    """Checks the exported TLA+, which has no symmetry, with the invariant."""
    try:
        find_tlc()
    except EnvironmentFailure as missing:
        is_missing(missing.render())
    file, name, constants, _ = small
    found = run_tlc(to_tla(with_invariant(file, name, constants), "Model"), timeout_s=SECONDS_MAX)
    ours = check(file, name, **constants).effort
    assert found.verdict == "complete", found.output
    assert found.distinct_states == (ours.unreduced_states or ours.states)


@pytest.mark.peers
@pytest.mark.parametrize("larger", LARGER, ids=map(name_of, LARGER))
def test_spin_counts_the_same(larger: Small) -> None:
    """Checks the exported Promela, which has no symmetry, with the invariant."""
    try:
        find_spin()
    except EnvironmentFailure as missing:
        is_missing(missing.render())
    file, name, constants, states = larger
    found = run_spin(to_promela(with_invariant(file, name, constants)), timeout_s=SECONDS_MAX)
    ours = check(file, name, **constants).effort
    assert found.verdict == "complete", found.output
    assert ours.states == states
    assert found.distinct_states == (ours.unreduced_states or ours.states)


def with_invariant(file: str, name: str, constants: Mapping[str, int]) -> Network:
    """The model with this invariant and no other property."""
    network = load(FOLDER / file, constants)
    kept = tuple(one for one in network.properties if one.name == name and isinstance(one.claim, Always))
    assert kept
    return replace(network, properties=kept)


def test_framing_needs_a_slow_replica_and_a_lie() -> None:
    """The queue of the correct replica is popped while it is empty; later its head is an event too old."""
    verdict = check("validate.py", "no_framing", RULE=1, CONSUMERS=1).verdict
    assert isinstance(verdict, Violated)
    steps = steps_of(verdict.trace)
    assert len(steps) == 10
    assert steps.index("pop") < steps.index("fetch")
    assert steps.count("poll") == 3


def test_printed_algorithm_polls_no_queue() -> None:
    """For any length: no state has a result, and the returned value is empty."""
    verdict = check("validate.py", "no_empty_record", RULE=0, CONSUMERS=1).verdict
    assert isinstance(verdict, Violated)
    assert steps_of(verdict.trace) == ["push", "pop", "pop", "build"]


@pytest.mark.parametrize(
    ("file", "name", "constants", "length"),
    [
        ("tendermint.py", "agreement", {"LOCKING": 0}, 10),
        ("tendermint.py", "agreement", {"PROOF": 0}, 10),
        ("tendermint.py", "agreement", {"DURABLE": 0}, 11),
        ("tendermint.py", "agreement", {"BALLOTS": 2}, 4),
        ("groups.py", "commits_never_fall", {"FENCING": 1}, 9),
        ("guarantees.py", "one_order_for_both_kinds", {"CONSUMERS": 1}, 10),
        ("storage.py", "acknowledged_is_stored", {"CLUSTERS": 2, "RECEIPTS": 1}, 2),
        ("storage.py", "consumers_agree", {"RECEIPTS": 0, "HOLES": 2}, 4),
        ("validate.py", "no_framing", {"RULE": 1, "PATIENCE": 0, "CONSUMERS": 1}, 3),
        ("reconfiguration.py", "clients_agree", {"DELAY": 0}, 6),
        ("reconfiguration.py", "clients_agree", {"EXPIRES": 0}, 10),
        ("reconfiguration.py", "clients_agree", {"BLOCK_TIME": 0}, 11),
        ("reconfiguration.py", "clients_agree", {"LEAVES_OLD": 0}, 15),
        ("snapshots.py", "state_was_certified", {"PROVEN_BY": 1}, 1),
        ("snapshots.py", "no_rollback", {"CHECKPOINTS": 0}, 9),
        ("snapshots.py", "votes_once", {"VOTES_APART": 0}, 5),
        ("snapshots.py", "receipt_is_verifiable", {"WHOLE": 0}, 12),
        ("durability.py", "agreement", {"DURABLE_FIRST": 0}, 18),
        ("durability.py", "votes_once", {"REFUSES_LOSS": 0}, 9),
        ("access.py", "writes_with_a_grant", {"AT_BLOCK": 0}, 4),
        ("access.py", "reads_with_a_grant", {"FOLLOWS": 0}, 12),
        ("access.py", "revocation_allows_nothing", {"CLOSED": 0, "STAYS_RESTRICTED": 0}, 2),
    ],
)
def test_breaks_as_soon_as_the_document_says(
    file: str, name: str, constants: Mapping[str, int], length: int
) -> None:
    verdict = check(file, name, **constants).verdict
    assert isinstance(verdict, Violated)
    assert len(steps_of(verdict.trace)) == length


def test_a_silent_cluster_is_what_blocks() -> None:
    """F + 1 clusters, all receipts: the run ends in idling, with the event at the correct cluster."""
    verdict = check("storage.py", "push_is_answered(0, 0)", CLUSTERS=2, RECEIPTS=2).verdict
    assert isinstance(verdict, Violated)
    steps = steps_of(verdict.trace)
    assert steps[-1] == "idle"
    assert "order_with_a_lie(0)" not in steps


def test_the_long_range_attack_needs_leaked_keys() -> None:
    """The first set has left, and its keys sign a fork for a client that trusts its last block for ever."""
    verdict = check("reconfiguration.py", "accepted_is_on_the_chain", EXPIRES=0).verdict
    assert isinstance(verdict, Violated)
    steps = steps_of(verdict.trace)
    assert steps.count("tick") == 2
    assert steps.index("leak(0)") == len(steps) - 2
    assert steps[-1].startswith("follow(")


def test_a_vote_that_was_not_durable_is_cast_twice() -> None:
    """The validator sends, crashes without a sync, and knows nothing of its vote when it is up again."""
    verdict = check("durability.py", "votes_once", DURABLE_FIRST=0).verdict
    assert isinstance(verdict, Violated)
    names = [step.split("(")[0] for step in steps_of(verdict.trace)]
    assert names == ["vote", "send", "crash", "restart", "vote", "send"]


def test_a_lagging_party_has_not_applied_the_revocation() -> None:
    """It serves last, and has applied fewer blocks than there are."""
    verdict = check("access.py", "reads_with_a_grant", FOLLOWS=0).verdict
    assert isinstance(verdict, Violated)
    steps = steps_of(verdict.trace)
    assert steps[-1].startswith("serve(")
    assert sum(step.startswith(("rule(", "write")) for step in steps) == 4
    assert steps.count("apply") < 4


def test_the_document_counts_right() -> None:
    """Runs, verdicts and the states of each model's main run."""
    text = (FOLDER.parents[1] / "docs" / "kabis-model.md").read_text(encoding="utf-8")
    verdicts = sum(len(model.expectations) for model in KNOWN)
    assert f"all {len(KNOWN)} runs, {verdicts} verdicts" in text
    mains = {model.path.name: model for model in KNOWN if not model.constants}
    assert sorted(mains) == FILES
    for file, main in mains.items():
        line = next(line for line in text.splitlines() if line.startswith(f"| `{file}` |"))
        # Liveness searches count more states, so the count of an invariant is the smallest.
        states = min(one.states for one in main.expectations if one.states is not None)
        assert line.endswith(f"| {states:,} |")
