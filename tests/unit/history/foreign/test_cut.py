"""Jepsen histories with one operation in each line, cut between two of them: never a false `held`.

Such a file is well-formed. While an operation is under way, its end is missing, which is an error. Else
nothing shows the cut; what is left must then be judged as what it is.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.history.foreign.test_judged import JEPSEN_LOGS, JEPSEN_QUEUES, Case
from tests.unit.history.foreign.told import imported
from veristream.errors import ModelError
from veristream.history.events import Event, Operation, Outcome
from veristream.history.job.run import audit_folder
from veristream.history.properties import Property
from veristream.history.verdicts import Judgement, Word

CASES = {
    f"{kind}: {name}": case
    for kind, cases in (("log", JEPSEN_LOGS), ("queue", JEPSEN_QUEUES))
    for name, case in cases.items()
}


def audited(folder: Path, text: str) -> tuple[list[Event], dict[Property, Judgement]]:
    folder.mkdir()
    _, events = imported(folder, {"history.edn": text})
    return events, dict(zip(Property, audit_folder(folder / "history").judgements, strict=True))


def messages(events: list[Event], operation: Operation) -> set[tuple[int, int, int, int]]:
    """Returns the messages of which an operation ended OK."""
    return {
        (event.stream, event.partition, event.producer, event.number)
        for event in events
        if (event.operation, event.outcome) == (operation, Outcome.OK)
    }


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_left_is_judged_as_what_it_is(tmp_path: Path, case: Case) -> None:
    (text,) = case.files.values()
    lines = text.splitlines(keepends=True)
    _, whole = audited(tmp_path / "whole", text)
    judged, refused = 0, []
    for count in range(1, len(lines)):
        try:
            events, found = audited(tmp_path / str(count), "".join(lines[:count]))
        except ModelError as error:
            refused.append(error.message)
            continue
        judged += 1
        if found[Property.DELIVERED].word is Word.HELD:
            assert messages(events, Operation.SEND) <= messages(events, Operation.RECEIVE)
        for asked, judgement in whole.items():
            for witness in judgement.witnesses:
                if set(witness.events) <= set(events):
                    assert found[asked].word is not Word.HELD, (count, witness)
    assert judged
    assert refused
    assert all("the history ends before process" in message for message in refused)


def test_a_loss_that_was_cut_off_is_not_observable(tmp_path: Path) -> None:
    """The reading to the end proves that message 11 is lost; without it nothing does."""
    (text,) = JEPSEN_LOGS["lost between polls"].files.values()
    lines = text.splitlines(keepends=True)
    words = {}
    for count in range(1, len(lines) + 1):
        try:
            _, found = audited(tmp_path / str(count), "".join(lines[:count]))
        except ModelError:
            continue
        words[count] = found[Property.DELIVERED].word
    assert words[len(lines)] is Word.VIOLATED
    assert {word for count, word in words.items() if count < len(lines)} == {Word.NOT_OBSERVABLE}
