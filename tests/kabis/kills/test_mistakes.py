"""The check of the kill tests notices planted mistakes, and nothing where there is none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.kabis.kills.files import check_files
from tests.kabis.kills.producing import PATIENCE_S
from tests.kabis.kills.trial import FoundProblemsError, Trial, opened, wait_until

pytestmark = pytest.mark.long

ALONE = ("anna",)
MANY = 30
SIGNED_TWICE = "has a batch that is not ours|no producer has signed twice|the key of anna, epoch 0, is"
"""The first batch is admitted after all, only storage parties have both, or both are on the ledger."""


def wait_for_stranded(trial: Trial) -> None:
    """Waits until many events wait because nothing is ordered: all that may be on their way are."""

    def are_many() -> bool:
        notes = trial.told()["anna"]
        return len(notes.pushed) - len(notes.acknowledged) >= MANY

    assert wait_until(are_many, PATIENCE_S)


@pytest.mark.parametrize("forgets", [False, True], ids=["with its journal", "without its journal"])
def test_a_producer_that_forgets_its_journal_is_noticed(tmp_path: Path, forgets: bool) -> None:
    with opened(tmp_path, ALONE) as trial:
        trial.strike(trial.members.validators)
        wait_for_stranded(trial)
        trial.strike(ALONE)
        if forgets:
            shutil.rmtree(trial.cluster.folder.path / "journals" / "anna")
        trial.launch(ALONE)
        trial.cluster.start(names=trial.members.validators)
        if forgets:
            with pytest.raises(AssertionError, match=SIGNED_TWICE):
                go_on(trial)
        else:
            go_on(trial)


def go_on(trial: Trial) -> None:
    """More events are acknowledged; then look at all there is."""
    trial.wait_for_progress()
    trial.check()
    trial.strike(trial.members.everybody)
    check_files(trial.cluster.folder)


@pytest.mark.parametrize("hasty", [False, True], ids=["patient", "hasty"])
def test_a_producer_that_acknowledges_before_a_block_decides_is_noticed(
    tmp_path: Path, hasty: bool
) -> None:
    """All validators are gone, so that no block can have what is still submitted."""
    with opened(tmp_path, ALONE, hasty=hasty) as trial:
        trial.strike(trial.members.validators)
        wait_for_stranded(trial)
        trial.strike(ALONE)
        trial.cluster.start(names=trial.members.validators)
        if not hasty:
            trial.check()
            return
        with pytest.raises(FoundProblemsError) as caught:
            trial.check(patience_s=3.0)
        assert all(each.endswith("and lost") for each in caught.value.problems)
