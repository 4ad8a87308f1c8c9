"""Kafka's transactions: expected verdicts, agreement of the engines, contents of counterexamples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import veristream as vs
from veristream.errors import EnvironmentFailure
from veristream.expected import KnownModel, read_known
from veristream.export.tla import to_tla
from veristream.ir.property import Always
from veristream.library import load
from veristream.verdict import Holds, Result, Trace, Violated
from veristream_testing.peers import find_tlc, run_tlc
from veristream_testing.states import explore

FOLDER = Path(__file__).resolve().parents[2] / "models" / "kafka_transactions"
MODEL = FOLDER / "transactions.py"
OURS = [model for model in read_known(FOLDER) if model.path == MODEL]
BEFORE = {"CLIENT": 0, "VERSION": 0, "VERIFY": 0}
VERIFIED = {"CLIENT": 0, "VERSION": 0, "VERIFY": 1}
AFTER = {"CLIENT": 1, "VERSION": 2, "VERIFY": 1}
"""How much of KIP-890 is in force: nothing, leaders that ask, all."""

SECONDS_MAX = 300.0

SMALL: list[dict[str, int]] = [
    {**BEFORE, "PRODUCERS": 1, "TRANSACTIONS": 1, "FAILOVERS": 1},
    {**BEFORE, "PARTITIONS": 1, "TRANSACTIONS": 1},
    {**VERIFIED, "PARTITIONS": 1, "TRANSACTIONS": 1},
    {**AFTER, "PARTITIONS": 1, "TRANSACTIONS": 1},
    {**AFTER, "PRODUCERS": 1, "TRANSACTIONS": 1, "FAILOVERS": 1},
    {**AFTER, "PRODUCERS": 1, "PARTITIONS": 1},
    {**VERIFIED, "BUMP": 1, "PRODUCERS": 1, "PARTITIONS": 1, "TRANSACTIONS": 1, "FAILOVERS": 1},
]
TINY: list[dict[str, int]] = [
    {**BEFORE, "PARTITIONS": 1, "TRANSACTIONS": 1},
    {**VERIFIED, "PARTITIONS": 1, "TRANSACTIONS": 1},
    {**AFTER, "PARTITIONS": 1, "TRANSACTIONS": 1},
    {**AFTER, "PRODUCERS": 1, "TRANSACTIONS": 1},
    {**VERIFIED, "BUMP": 1, "PRODUCERS": 1, "PARTITIONS": 1},
]


def name_of(constants: Mapping[str, int]) -> str:
    """What a test is called."""
    return "-".join(f"{name}={value}" for name, value in constants.items())


@pytest.fixture
def tlc() -> None:
    """Skips the test unless Java and TLC are available."""
    try:
        find_tlc()
    except EnvironmentFailure as missing:
        pytest.skip(missing.render())


def check(name: str, **constants: int) -> Result:
    """The result of one property."""
    (result,) = vs.check(MODEL, [name], constants=constants)
    return result


def trace_of(result: Result) -> Trace:
    """The counterexample."""
    assert isinstance(result.verdict, Violated) and result.verdict.trace is not None
    return result.verdict.trace


def actions_of(trace: Trace) -> list[str]:
    """The names of the actions without their arguments."""
    return [step.action.split("(")[0] for step in trace.steps if step.action is not None]


@pytest.mark.models
@pytest.mark.parametrize("model", OURS, ids=[model.name for model in OURS])
def test_is_as_expected(model: KnownModel) -> None:
    """Verdicts, counts and vacuity are those of expected.toml."""
    (reproduction,) = vs.reproduce([model.name], models=FOLDER.parent)
    assert reproduction.outcomes
    assert [
        (one.expectation.property, one.differences) for one in reproduction.outcomes if one.differences
    ] == []


def test_no_property_is_forgotten() -> None:
    """Each property of the model has an expected verdict in some run of it."""
    listed = {one.property.split("(")[0] for model in OURS for one in model.expectations}
    assert listed == {one.name.split("(")[0] for one in load(MODEL).properties}


@pytest.mark.parametrize("constants", SMALL, ids=name_of)
def test_interpreter_agrees(constants: Mapping[str, int]) -> None:
    """The interpreter finds the same states."""
    (result,) = vs.check(MODEL, ["epochs_never_fall"], constants=constants)
    oracle = explore(load(MODEL, constants), 20_000)
    assert oracle.complete and not oracle.failures
    assert isinstance(result.verdict, Holds)
    assert len(oracle.states) == result.effort.states


@pytest.mark.peers
@pytest.mark.usefixtures("tlc")
@pytest.mark.parametrize("constants", TINY, ids=name_of)
def test_tlc_agrees(constants: Mapping[str, int]) -> None:
    """TLC finds the same states in the exported model, and the same invariants hold."""
    network = load(MODEL, constants)
    results = vs.check(MODEL, constants=constants)
    kept = {one.property for one in results if isinstance(one.verdict, Holds)}
    invariants = tuple(
        one for one in network.properties if isinstance(one.claim, Always) and one.name in kept
    )
    assert invariants
    run = run_tlc(to_tla(replace(network, properties=invariants), "Model"), timeout_s=SECONDS_MAX)
    assert run.verdict == "complete", run.output
    (found,) = {one.effort.states for one in results if one.property == "epochs_never_fall"}
    assert run.distinct_states == found


def test_late_write_hangs() -> None:
    """Before KIP-890: the producer gives up, the marker is written, and then the write arrives."""
    trace = trace_of(check("no_hanging_transaction", **BEFORE, PRODUCERS=1))
    actions = actions_of(trace)
    assert actions[-1] == "append_write"
    late = ["produce", "abort", "end_transaction", "write_marker", "append_write"]
    assert [action for action in actions if action in late] == late
    assert trace.steps[-1].state["Partition(0).log"] == [
        {"kind": "ABORT", "transaction": 0},
        {"kind": "DATA", "transaction": 1},
    ]


def test_late_write_joins_the_next_transaction() -> None:
    """Verification alone is not enough: the coordinator confirms, but the next transaction."""
    for parts in (BEFORE, VERIFIED):
        trace = trace_of(check("aborted_is_never_read", **parts, PRODUCERS=1))
        last = trace.steps[-1].state
        assert last["fate"] == ["ABORTED", "COMMITTED"]
        readings = last["Consumer(0).read"]
        assert isinstance(readings, list) and any("1" in one for one in readings if isinstance(one, list))
        assert actions_of(trace).count("begin_transaction") == 2


@pytest.mark.parametrize("parts", [VERIFIED, AFTER], ids=name_of)
def test_verification_ends_the_hanging(parts: Mapping[str, int]) -> None:
    """The leader's verification before it opens a transaction prevents hanging transactions."""
    result = check("no_hanging_transaction", **parts, PRODUCERS=1)
    assert isinstance(result.verdict, Holds) and result.verdict.vacuous is None


def test_guard_is_needed() -> None:
    """Without the guard, a marker can be written between the coordinator's confirmation and the write."""
    actions = actions_of(trace_of(check("no_hanging_transaction", **VERIFIED, PRODUCERS=1, GUARD=0)))
    assert actions.index("verify_write") < actions.index("write_marker") < actions.index("append_write")


def test_failover_needs_a_failover() -> None:
    """The witness needs a failover: without failovers there is none."""
    one = {**AFTER, "PRODUCERS": 1, "TRANSACTIONS": 1}
    assert isinstance(check("failover_between_markers", **one, FAILOVERS=1).verdict, Holds)
    assert isinstance(check("failover_between_markers", **one, FAILOVERS=0).verdict, Violated)


CELLS = [(client, version, verify) for client in (0, 1) for version in (0, 1, 2) for verify in (0, 1)]


@pytest.mark.parametrize(("client", "version", "verify"), CELLS)
def test_each_cell_is_predicted(client: int, version: int, verify: int) -> None:
    """A late write is accepted if nobody asks the coordinator; only then does the partition hang."""
    name = f"late_write_{('old', 'new')[client]}_client_v{version}_{('off', 'on')[verify]}"
    (cell,) = [model for model in OURS if model.name == name]
    assert cell.constants == {
        "CLIENT": client,
        "VERSION": version,
        "VERIFY": verify,
        "BUMP": 1,
        "PRODUCERS": 1,
        "PARTITIONS": 1,
    }
    trusting = not verify and not (client == 1 and version == 2)
    verdicts = {one.property: one.verdict == "holds" for one in cell.expectations}
    assert verdicts == {
        "late_write_is_in_flight": True,
        "late_write_is_accepted": trusting,
        "no_hanging_transaction": not trusting,
        "aborted_is_never_read": not trusting,
        "late_write_has_an_older_epoch": True,
    }


def test_new_epoch_prevents_the_joining() -> None:
    """With leaders that ask, a client needs a new epoch after it has given a write up (KIP-360)."""
    one = {**VERIFIED, "PRODUCERS": 1, "PARTITIONS": 1}
    assert isinstance(check("aborted_is_never_read", **one, BUMP=0).verdict, Violated)
    assert isinstance(check("aborted_is_never_read", **one, BUMP=1).verdict, Holds)


def test_steered_write_waits_for_the_client() -> None:
    """In a steered run the late write arrives after the abort and the new epoch are answered."""
    one = {**BEFORE, "PRODUCERS": 1, "PARTITIONS": 1, "BUMP": 1, "STEERED": 1}
    actions = actions_of(trace_of(check("no_hanging_transaction", **one)))
    assert actions[actions.index("abort") :] == [
        "abort",
        "end_transaction",
        "write_marker",
        "receive_answer",
        "complete",
        "grant_producer_id",
        "receive_answer",
        "append_write",
    ]


def test_fenced_producer_gets_no_new_epoch() -> None:
    """A producer that asks for a new epoch with an old one is refused, and fences nobody."""
    one = {**VERIFIED, "PARTITIONS": 1, "TRANSACTIONS": 1, "BUMP": 1}
    trace = trace_of(check("producer_id_is_given(0)", **one))
    last = trace.steps[-1].state
    assert last["Producer(0).phase"] == "FENCED" and last["Producer(1).phase"] != "FENCED"
    assert isinstance(check("epoch_has_one_holder", **one).verdict, Holds)
