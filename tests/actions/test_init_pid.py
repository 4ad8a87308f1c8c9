"""How a Kafka producer gets its id: the models against the interpreter, TLC and handwritten TLA+."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import veristream as vs
from veristream.errors import EnvironmentFailure
from veristream.expected import KnownModel, read_known
from veristream.export.tla import Exported, to_tla
from veristream.ir.property import Always
from veristream.library import load
from veristream.verdict import Violated, word
from veristream_testing.peers import find_tlc, run_tlc
from veristream_testing.states import explore

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "models" / "kafka_transactions"
MODELS = ("init_pid.py", "init_pid_faults.py")
OURS = [model for model in read_known(FOLDER) if model.path.name in MODELS]
SECONDS_MAX = 300.0

SMALL = [
    ("init_pid.py", {"CLIENTS": 2, "RESTARTS": 1}),
    ("init_pid.py", {"CLIENTS": 2, "TIDS": 1, "RESTARTS": 1}),
    ("init_pid.py", {"CLIENTS": 2, "TIDS": 1, "ENDLESS": 1, "EPOCHS": 2, "PARK": 1}),
    ("init_pid_faults.py", {"FAULTS": 1, "REPEATS": 0}),
    ("init_pid_faults.py", {"CLIENTS": 1, "FAULTS": 2}),
]


@pytest.fixture
def tlc() -> None:
    """Skips the test unless Java and TLC are available."""
    try:
        find_tlc()
    except EnvironmentFailure as missing:
        pytest.skip(missing.render())


@pytest.mark.models
@pytest.mark.parametrize("model", OURS, ids=[model.name for model in OURS])
def test_is_as_expected(model: KnownModel) -> None:
    """Verdicts, counts and vacuity are those of expected.toml."""
    (reproduction,) = vs.reproduce([model.name], models=FOLDER.parent)
    assert reproduction.outcomes
    assert [
        (one.expectation.property, one.differences) for one in reproduction.outcomes if one.differences
    ] == []


@pytest.mark.parametrize("file", MODELS)
def test_no_property_is_forgotten(file: str) -> None:
    """Each property of the models has an expected verdict in some run of it."""
    listed = {one.property for model in OURS if model.path.name == file for one in model.expectations}
    assert {one.name.split("(")[0] for one in load(FOLDER / file).properties} == {
        name.split("(")[0] for name in listed
    }


@pytest.mark.parametrize(("file", "constants"), SMALL, ids=str)
def test_interpreter_counts_the_same(file: str, constants: Mapping[str, int]) -> None:
    network = load(FOLDER / file, constants)
    oracle = explore(network, 100_000)
    (result,) = vs.check(FOLDER / file, ["no_deadlock"], constants=constants)
    assert word(result.verdict) == "holds"
    assert (result.effort.states, result.effort.transitions) == (len(oracle.states), oracle.transitions)


@pytest.mark.parametrize(
    ("constants", "name"), [({"PIDS": 2}, "pair_held_once"), ({"EPOCHS": 1, "PIDS": 3}, "pair_held_once")]
)
def test_too_few_pids_are_a_finding(constants: Mapping[str, int], name: str) -> None:
    """A limit that is too small never gives a verdict."""
    (result,) = vs.check(FOLDER / "init_pid_faults.py", [name], constants=constants)
    assert word(result.verdict) == "unknown"
    assert result.verdict.trace is not None


def test_starvation_is_by_concurrent_transactions() -> None:
    """Client 0 does not ask the wrong broker: it asks the coordinator, which refuses."""
    constants = {"ENDLESS": 1, "EPOCHS": 2}
    (result,) = vs.check(FOLDER / "init_pid.py", ["gets_pid_under_strong_fairness(0)"], constants=constants)
    verdict = result.verdict
    assert isinstance(verdict, Violated)
    shown = str(verdict.trace)
    assert "CONCURRENT_TRANSACTIONS" in shown


@pytest.mark.peers
@pytest.mark.usefixtures("tlc")
@pytest.mark.parametrize(
    ("file", "constants"),
    [
        ("init_pid.py", {"CLIENTS": 2, "TIDS": 1, "RESTARTS": 0}),
        ("init_pid_faults.py", {"CLIENTS": 1, "FAULTS": 1, "REPEATS": 0}),
    ],
)
def test_tlc_counts_the_same(file: str, constants: Mapping[str, int]) -> None:
    """Checks the exported TLA+ with all invariants; the sizes are small because TLC is slow on it."""
    network = load(FOLDER / file, constants)
    kept = tuple(one for one in network.properties if isinstance(one.claim, Always))
    found = run_tlc(to_tla(replace(network, properties=kept), "Model"), timeout_s=SECONDS_MAX)
    (ours,) = vs.check(FOLDER / file, ["no_deadlock"], constants=constants)
    assert found.verdict == "complete", found.output
    assert found.distinct_states == ours.effort.states


@pytest.mark.peers
@pytest.mark.usefixtures("tlc")
def test_tlc_fences_a_client_by_itself() -> None:
    """TLC finds the same violation for a repeated request."""
    network = load(FOLDER / "init_pid_faults.py", {"CLIENTS": 1, "FAULTS": 1})
    kept = tuple(one for one in network.properties if one.name == "not_fenced_by_itself")
    found = run_tlc(to_tla(replace(network, properties=kept), "Model"), timeout_s=SECONDS_MAX)
    assert found.verdict == "violated", found.output


@pytest.mark.peers
@pytest.mark.usefixtures("tlc")
def test_module_by_hand_has_as_many_states() -> None:
    """The TLA+ module of the documentation, written without the compiler, has the same results."""
    found = run_tlc(Exported("InitPid", module_by_hand(), CONFIG), timeout_s=SECONDS_MAX)
    (ours,) = vs.check(FOLDER / "init_pid.py", ["pair_held_once"])
    assert found.verdict == "complete", found.output
    assert found.distinct_states == ours.effort.states


@pytest.mark.peers
@pytest.mark.usefixtures("tlc")
def test_module_by_hand_needs_the_lookup() -> None:
    """TLC agrees that a client that only guesses might never get its PID."""
    guessing = module_by_hand().replace("/\\ SF_vars(AskTheCoordinator(c))", "")
    assert guessing != module_by_hand()
    found = run_tlc(Exported("InitPid", guessing, CONFIG), timeout_s=SECONDS_MAX)
    assert "Temporal properties were violated" in found.output


CONFIG = """SPECIFICATION Spec
CONSTANTS CLIENTS = 3 TIDS = 2 BROKERS = 2 PARTITIONS = 2 RESTARTS = 2
INVARIANT PairHeldOnce
PROPERTIES EpochNeverFalls GetsPid
"""


def module_by_hand() -> str:
    text = (ROOT / "docs" / "kafka-transactions.md").read_text(encoding="utf-8")
    (module,) = re.findall(r"^```tla\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert isinstance(module, str)
    return module
