"""The check of the kill tests notices planted mistakes, and nothing where there is none."""

from __future__ import annotations

import re
import shutil
from collections.abc import Set
from pathlib import Path

import pytest

from tests.kabis.kills.files import check_files
from tests.kabis.kills.oracle import make_value
from tests.kabis.kills.producing import PATIENCE_S
from tests.kabis.kills.trial import FoundProblemsError, Trial, opened, wait_until

pytestmark = pytest.mark.long

ALONE = ("anna",)
MANY = 30
SIGNED_TWICE = (
    "has a batch that this producer did not make|no producer has signed twice|the key of anna, epoch 0, is"
)
"""The first batch is admitted after all, only storage parties have both, or both are on the ledger."""


def wait_for_stranded(trial: Trial, *, hasty: bool = False) -> None:
    """Waits until many events wait because nothing is ordered: all that may be on their way are.

    An event of those that no validator was there for is then kept by a storage party, so that it was
    signed; and a producer that is hasty has taken one for acknowledged.
    """
    last = max(trial.told()["anna"].pushed)

    def are_many() -> bool:
        notes = trial.told()["anna"]
        orphans = {number for number in notes.pushed if number > last}
        many = len(notes.pushed) - len(notes.acknowledged) >= MANY
        return many and bool(orphans & notes.acknowledged.keys()) is hasty and is_stored(trial, orphans)

    assert wait_until(are_many, PATIENCE_S)


def is_stored(trial: Trial, numbers: Set[int]) -> bool:
    """Whether the log of a storage party has an event of the producer with one of these numbers."""
    values = re.compile(make_value("anna", 0).removesuffix(b"0") + rb"(\d+)")
    logs = [
        path.read_bytes()
        for name in trial.members.storage
        for path in (trial.cluster.folder.party(name) / "log").glob("*.segment")
    ]
    return any(int(found) in numbers for log in logs for found in values.findall(log))


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
        wait_for_stranded(trial, hasty=hasty)
        trial.strike(ALONE)
        trial.cluster.start(names=trial.members.validators)
        if not hasty:
            trial.check()
            return
        with pytest.raises(FoundProblemsError) as caught:
            trial.check(patience_s=3.0)
        assert all(each.endswith("and lost") for each in caught.value.problems)
