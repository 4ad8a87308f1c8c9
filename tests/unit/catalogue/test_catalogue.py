"""The catalogue: every property has an entry, and every entry names models and properties that exist."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from veristream import library
from veristream.catalogue.catalogue import ENTRIES, find_entries, rule
from veristream.catalogue.entry import Ruling
from veristream.errors import ModelError
from veristream.history.properties import Property as Checked
from veristream.history.witnesses import KINDS_OF
from veristream.ir.property import Property, Reachable

ROOT = Path(__file__).resolve().parents[3]
MODELS = ROOT / "models"
RULINGS = rule(ENTRIES, MODELS)


def test_every_property_of_histories_has_an_entry() -> None:
    assert [entry.name for entry in ENTRIES if entry.on_histories] == list(Checked)
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)


def test_an_entry_says_what_it_needs_or_what_to_do_instead() -> None:
    for entry in ENTRIES:
        assert entry.meaning.endswith(".") and entry.promises, entry.name
        assert bool(entry.needs) == entry.on_histories, entry.name
        assert bool(entry.instead) != entry.on_histories, entry.name


def test_the_kinds_of_anomalies_are_those_that_are_looked_for() -> None:
    found = {entry.name: tuple(entry.anomalies) for entry in ENTRIES if entry.on_histories}
    assert found == {checked.value: kinds for checked, kinds in KINDS_OF.items()}


def test_every_entry_is_proved_by_a_model() -> None:
    assert [name for name, found in RULINGS.items() if not any(one.proves for one in found)] == []


def claims_of(known: Path, rulings: list[Ruling]) -> dict[str, Property]:
    networks = library.load_all(
        known, rulings[0].model.constants, sorted({one.property for one in rulings})
    )
    return {one.name: one for network in networks for one in network.properties}


def cited() -> list[list[Ruling]]:
    """What is cited, in groups of one file and its constants, each a load."""
    groups: dict[str, list[Ruling]] = defaultdict(list)
    for found in RULINGS.values():
        for one in found:
            groups[one.model.name].append(one)
    return list(groups.values())


@pytest.mark.parametrize("group", cited(), ids=lambda group: group[0].model.name)
def test_cited_properties_exist(group: list[Ruling]) -> None:
    claims = claims_of(group[0].model.path, group)
    for one in group:
        assert one.property in claims
        goal = isinstance(claims[one.property].claim, Reachable)
        assert (one.proves == (one.verdict == "holds")) != goal, "a goal that is reached refutes"


def test_a_word_of_a_name_is_enough() -> None:
    assert [one.name for one in find_entries(["fenced", "at  most once"])] == [
        "a fenced producer never commits",
        "at most once",
    ]


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(ModelError, match="the catalogue has no property called odrer") as raised:
        find_entries(["odrer"])
    assert raised.value.hint.startswith(
        "did you mean order? its properties are acknowledged means delivered; "
    )


def test_a_word_of_several_names_lists_them() -> None:
    with pytest.raises(ModelError, match="several properties match delivered") as raised:
        find_entries(["delivered"])
    assert raised.value.hint == (
        "choose one of acknowledged means delivered; acknowledged is never delivered again"
    )
