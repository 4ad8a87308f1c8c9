"""A CSP# file lowers only the processes that the chosen assertions speak of, each once."""

from __future__ import annotations

from pathlib import Path

import pytest

from veristream import library
from veristream.errors import ModelError
from veristream.languages.csp import syntax
from veristream.languages.csp.lower import network as lowering

MODEL = """var n = 0;
Good() = [n < 2] up{n++;} -> Good() [] [n > 0] down{n--;} -> Good();
Spec() = up -> Spec() [] down -> Spec();
Grows() = (a -> Grows()); Skip;
#define full n == 2;
#assert Good() reaches full;
#assert Good() deadlockfree;
#assert Good() refines Spec();
#assert Grows() deadlockfree;
"""
TEXTS = ("Good() reaches full", "Good() deadlockfree", "Good() refines Spec()", "Grows() deadlockfree")
GROWTH = "this process grows without bound: it does not recurse in the last place"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.csp"
    path.write_text(MODEL, encoding="utf-8")
    return path


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lists the processes that were lowered."""
    names: list[str] = []
    lower = lowering.lower

    def spy(specification: syntax.Specification, process: syntax.Ref, stack_max: int) -> object:
        names.append(process.name)
        return lower(specification, process, stack_max)

    monkeypatch.setattr(lowering, "lower", spy)
    return names


def test_without_names_every_process_is_lowered(model: Path, lowered: list[str]) -> None:
    with pytest.raises(ModelError) as raised:
        library.load_all(model)
    assert raised.value.message == GROWTH
    assert lowered == ["Good", "Spec", "Grows"]


def test_other_processes_are_not_lowered(model: Path, lowered: list[str]) -> None:
    (network,) = library.load_all(model, properties=["full", "Good()deadlockfree"])
    assert [one.name for one in network.properties] == list(TEXTS[:2])
    assert lowered == ["Good"]


def test_a_specification_is_lowered_if_it_is_asked_for(model: Path, lowered: list[str]) -> None:
    (network,) = library.load_all(model, properties=["refines"])
    assert [one.name for one in network.properties] == [TEXTS[2]]
    assert lowered == ["Good", "Spec"]


def test_a_chosen_process_is_checked_as_ever(model: Path, lowered: list[str]) -> None:
    with pytest.raises(ModelError) as raised:
        library.load_all(model, properties=["full", "Grows() deadlockfree"])
    assert raised.value.message == GROWTH


def test_a_check_chooses_too(model: Path, lowered: list[str]) -> None:
    results = library.check(model, ["full"])
    assert [(one.property, one.effort.states) for one in results] == [(TEXTS[0], 3)]
    assert lowered == ["Good"]


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("fool", "the model has no property called fool", f"its properties are {', '.join(TEXTS)}"),
        ("deadlockfree", "several properties match deadlockfree", f"choose one of {TEXTS[1]}; {TEXTS[3]}"),
    ],
)
def test_a_wrong_name_is_told_before_lowering(
    name: str, message: str, hint: str, model: Path, lowered: list[str]
) -> None:
    with pytest.raises(ModelError) as raised:
        library.load_all(model, properties=[name])
    assert (raised.value.message, raised.value.hint) == (message, hint)
    assert lowered == []
