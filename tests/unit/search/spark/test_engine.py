"""What the Spark engine shares, and what it leaves to the driver; runs without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

import veristream as vs
from veristream.errors import EnvironmentFailure, ModelError
from veristream.ir.network import Network
from veristream.ir.text.read import read_network
from veristream.search import engine as local
from veristream.search.limits import Limits, Progress, SparkOptions, silent
from veristream.search.shared.checkpoint import Manifest, write_manifest
from veristream.search.spark import engine as spark
from veristream.source import Source
from veristream.verdict import Holds, Unknown, Violated, word

MODELS = Path(__file__).parents[4] / "models"
UNTIMED = """
network clock
var n: 0..2 = 0
component Clock {
  location here initial
  edge here -> here { action tick do { n := (n + 1) mod 3; } }
}
property returns: ltl [] <> {n == 0}
property unique: deterministic
property low: always n < 2
property top: reachable n == 2
"""
TIMED = """
network lamp timed
clock x
component Lamp {
  location lit initial
  edge lit -> lit { action blink do { reset x := 0 } }
}
property blinks: inevitable Lamp@lit
property safe: always true
"""


def _network(text: str) -> Network:
    return read_network(Source("<text>", text), {})


def _no_session() -> NoReturn:
    raise AssertionError("the test needs no session")


def _shares(text: str) -> dict[str, list[str]]:
    """The names of the properties, by the function that checks them on a cluster."""
    network = _network(text)
    shares: dict[str, list[str]] = {}
    for method, mine in local.plan_searches(network, network.properties):
        search = spark.SHARED.get(method, spark.check_alone)
        shares.setdefault(search.__name__, []).extend(one.name for one in mine)
    return shares


def test_untimed_properties_are_shared_out() -> None:
    assert _shares(UNTIMED) == {
        "check_liveness_on_spark": ["returns"],
        "check_alone": ["unique"],
        "check_safety_on_spark": ["low", "top"],
    }


def test_timed_properties_are_shared_out() -> None:
    assert _shares(TIMED) == {"check_alone": ["blinks"], "check_timed_on_spark": ["safe"]}


def test_results_are_in_the_order_of_the_properties() -> None:
    network = _network(UNTIMED)
    check = spark.engine(_no_session, SparkOptions(parts=2))
    found = check(network, network.properties, Limits(), silent)
    assert [(one.property, word(one.verdict)) for one in found] == [
        ("returns", "holds"),
        ("unique", "holds"),
        ("low", "violated"),
        ("top", "holds"),
    ]


@pytest.mark.parametrize(("start_states", "expected"), [(200_000, ["unique"]), (None, [])])
def test_what_the_driver_checks_alone_is_told_where_spark_was_asked_for(
    start_states: int | None, expected: list[str]
) -> None:
    told: list[tuple[str, str]] = []
    options = SparkOptions(parts=2, start_states=start_states, tell=lambda *one: told.append(one))
    network = _network(UNTIMED)
    wanted = [one for one in network.properties if one.name in ("unique", "low")]
    spark.engine(_no_session, options)(network, wanted, Limits(), silent)
    assert told == [("checked by the driver alone", name) for name in expected]


def test_after_an_interrupt_nothing_is_begun() -> None:
    network = _network(UNTIMED)
    wanted = [one for one in network.properties if one.name != "returns"][::-1]

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    found = spark.engine(_no_session, SparkOptions(parts=2))(network, wanted, Limits(), interrupt)
    assert [one.property for one in found] == ["top", "low", "unique"]
    assert found[2].verdict == Unknown("interrupted")
    assert found[2].effort.states == 0
    assert local.not_begun(wanted[2]).kind == found[2].kind == "deterministic"


def test_an_unused_session_is_not_opened_by_auto() -> None:
    network = _network(UNTIMED)
    wanted = [one for one in network.properties if one.name in ("low", "top")]
    low, top = spark.engine(_no_session, SparkOptions(start_states=None))(network, wanted, Limits(), silent)
    assert isinstance(low.verdict, Violated) and isinstance(top.verdict, Holds)


def _check(folder: Path, *names: str, symmetry: bool = True, **constants: int) -> None:
    """Runs a search so small that no session is opened for it."""
    options = SparkOptions(parts=2, checkpoint=str(folder))
    path = MODELS / "philosophers/philosophers.net"
    vs.check(path, names, constants=constants, limits=Limits(symmetry=symmetry), spark=options)


@pytest.mark.parametrize(
    ("names", "symmetry", "constants"),
    [
        (["two_can_eat"], True, {"N": 3}),
        (["no_deadlock", "two_can_eat"], True, {"N": 3}),
        (["no_deadlock"], True, {"N": 4}),
        (["no_deadlock"], False, {"N": 3}),
    ],
)
def test_a_folder_has_checkpoints_of_one_model(
    tmp_path: Path, names: list[str], symmetry: bool, constants: dict[str, int]
) -> None:
    _check(tmp_path / "saved", "no_deadlock", N=3)
    _check(tmp_path / "saved", "no_deadlock", N=3)
    with pytest.raises(ModelError, match="belongs to another model or to other properties"):
        _check(tmp_path / "saved", *names, symmetry=symmetry, **constants)


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    below = str(tmp_path / "file" / "folder")
    with pytest.raises(EnvironmentFailure, match=r"--spill .*file/folder: Not a directory"):
        spark.engine(_no_session, SparkOptions(parts=2, spill=below))
    with pytest.raises(
        EnvironmentFailure, match=r"checkpoints cannot be written to .*file/folder: .*Not a dir"
    ):
        _check(Path(below), "no_deadlock", N=3)


def test_a_manifest_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailure, match=r"the checkpoint cannot be written: .*Not a directory"):
        write_manifest(str(tmp_path / "file"), Manifest("", 0, (), (), ()))
