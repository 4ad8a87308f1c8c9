"""Clocks that jump: whatever needs real time is not observable then, in the whole job, and never held."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.unit.history.job.recorded import audit_json, expected_json, record
from veristream.history.job.run import audit_folder
from veristream.history.manifest import Stream
from veristream.history.properties import Property
from veristream.history.reasons import EVIDENCE
from veristream.history.store.reader import read_manifest
from veristream.history.verdicts import Judgement, Word
from veristream_testing.histories.history import History
from veristream_testing.histories.noisy import noisy_history
from veristream_testing.histories.notation import LOG, QUEUE, history


@dataclass(frozen=True, slots=True)
class Case:
    """A history with clocks that are right, and its verdict; then the clock of process b jumps."""

    asked: Property
    line: str
    word: Word
    stream: Stream = LOG


LEASED = replace(QUEUE, redelivery_ns=10**9)
CASES = (
    Case(Property.DELIVERED, "a>1 bE", Word.VIOLATED, QUEUE),
    Case(Property.DELIVERED, "a>1 bE0-1", Word.VIOLATED),
    Case(Property.ABORTED, "a[1 a>1@0 a]1 b<a1@0", Word.HELD),
    Case(Property.ABORTED, "a[1 a>1@0 b<a1@0 a]1", Word.VIOLATED),
    Case(Property.FENCED, "ao1 a[1 a]1 bo2", Word.HELD),
    Case(Property.FENCED, "ao1 a[1 bo2 a]1", Word.VIOLATED),
    Case(Property.EXCLUSIVE, "aA0 aR bA0", Word.HELD),
    Case(Property.EXCLUSIVE, "aA0 bA0 aR", Word.VIOLATED),
    Case(Property.FORWARD, "a=2 a=3 b=5", Word.HELD),
    Case(Property.FORWARD, "b=5 a=2 a=3", Word.VIOLATED),
    Case(Property.FORWARD, "b=5 a=2 aA3", Word.VIOLATED),
    Case(Property.BOUNDED, "a>1 a>2 br1 b<a1 b+a1 b<a2", Word.HELD, LEASED),
    Case(Property.BOUNDED, "a>1 a>2 br1 b<a1 b<a2", Word.VIOLATED, LEASED),
    Case(Property.FINAL, "a>1 a<a1 b<a1 b+a1", Word.HELD, QUEUE),
    Case(Property.FINAL, "a>1 b<a1 b+a1 a<a1", Word.VIOLATED, QUEUE),
)


def audited(folder: Path, of: History) -> dict[Property, Judgement]:
    """Audits a history in buckets, and asserts that the plain checker says the same."""
    recorded = record(folder, of)
    assert audit_json(recorded) == expected_json(read_manifest(recorded), of.events)
    return dict(zip(Property, audit_folder(recorded).judgements, strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.asked}: {case.line}")
def test_nothing_is_concluded_from_a_clock_that_jumped(tmp_path: Path, case: Case) -> None:
    steady = audited(tmp_path / "steady", history(f"{case.line} bC", case.stream))
    jumped = audited(tmp_path / "jumped", history(f"{case.line} bC*1", case.stream))
    assert steady[case.asked].word is case.word
    assert (jumped[case.asked].word, jumped[case.asked].counts) == (Word.NOT_OBSERVABLE, {})
    if case.asked is not Property.DELIVERED:
        assert "a clock jumped" in jumped[case.asked].reason
    for asked in set(Property) - TIMED:
        assert jumped[asked].word is steady[asked].word


TIMED = {case.asked for case in CASES}


def test_all_properties_that_compare_clocks_are_tried() -> None:
    compared = {asked for asked, counted in EVIDENCE.items() if "uncompared:" in counted}
    assert compared | {Property.DELIVERED} == TIMED


def test_noise(tmp_path: Path) -> None:
    """Arbitrary histories, in some of which clocks jump, through the whole job."""
    words: dict[Property, set[Word]] = {asked: set() for asked in Property}
    for seed in range(60):
        for asked, judgement in audited(tmp_path / str(seed), noisy_history(seed)).items():
            if "a clock jumped" in judgement.reason:
                words[asked].add(judgement.word)
    assert {asked for asked, seen in words.items() if seen} <= TIMED
    assert set().union(*words.values()) == {Word.NOT_OBSERVABLE}
