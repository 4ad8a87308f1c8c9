"""What came of attacks, compared with what was expected and with the models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.trials.intruders.sample import (
    EXPLAINED,
    FAKED,
    KNOWN,
    LEAKS,
    READ,
    REFUSED,
    REFUSES,
    STORED,
    attack_once,
    surprising,
    well,
)
from veristream.brokers.kerberos.secured import Security
from veristream.errors import ModelError
from veristream.trials.intruders.attacks import Attack, Observation, Outcome
from veristream.trials.intruders.comparison import Agreement
from veristream.trials.intruders.outcomes import Counterpart, read_shipped
from veristream.trials.intruders.run import run


def test_an_attack_is_possible_in_the_model_if_its_goal_can_be_reached() -> None:
    cells = well().cells
    assert [cell.model_verdict for cell in cells] == ["violated", "violated", None, "holds"]
    assert [cell.agreement for cell in cells] == [
        Agreement.AGREES,
        Agreement.DIFFERS,
        Agreement.NO_COUNTERPART,
        Agreement.AGREES,
    ]
    assert not any(cell.is_unexplained for cell in cells)


def test_a_surprise_needs_a_look() -> None:
    (cell,) = surprising().cells
    assert (cell.agreement, cell.is_as_expected, cell.is_unexplained) == (Agreement.DIFFERS, False, True)


def test_an_outcome_for_another_reason_is_a_surprise() -> None:
    """A client that only timed out was not refused."""
    (cell,) = attack_once((REFUSES,), replace(REFUSED, reason="0 forged messages stored: timed out")).cells
    assert (cell.agreement, cell.is_unexplained) == (Agreement.AGREES, True)


def test_a_difference_needs_a_reason() -> None:
    (cell,) = attack_once((replace(EXPLAINED, why=""),), STORED).cells
    assert (cell.is_as_expected, cell.is_unexplained) == (True, True)


@pytest.mark.parametrize(
    "counterpart", [Counterpart("nothing", FAKED.property), Counterpart("kafka_kerberos", "P() reaches Q")]
)
def test_a_model_that_is_not_there_is_named(counterpart: Counterpart) -> None:
    with pytest.raises(ModelError, match=r"nothing|P\(\) reaches Q"):
        attack_once((replace(LEAKS, counterpart=counterpart),), READ)


def test_each_configuration_is_attacked_in_a_folder_of_its_own(tmp_path: Path) -> None:
    asked: list[tuple[Security, Path]] = []
    told: list[str] = []

    def observe(
        security: Security, attacks: Sequence[Attack], folder: Path
    ) -> Mapping[Attack, Observation]:
        asked.append((security, folder))
        return {each: Observation(Outcome.PREVENTED, "nothing works") for each in attacks}

    chosen = read_shipped()[:2]
    found = list(
        run(chosen, tmp_path, KNOWN, observe, lambda one, what: told.append(f"{one.title}: {what}"))
    )
    assert asked == [(one.security, tmp_path / one.name) for one in chosen]
    assert told == ["kerberos plaintext: attacking", "kerberos sasl-plaintext: attacking"]
    assert [len(one.cells) for one in found] == [len(one.expected) for one in chosen]
    assert all(cell.is_unexplained for one in found for cell in one.cells)
