"""Mutations change models and leave most of them readable; a campaign survives what ends its process."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest

from veristream import library
from veristream_testing.mutants import campaign
from veristream_testing.mutants.mutation import mutant, mutate
from veristream_testing.mutants.samples import Sample, all_samples
from veristream_testing.mutants.shrink import shrink
from veristream_testing.mutants.tokens import groups_of, items_of, operands_of, tokenise, untokenise
from veristream_testing.mutants.trial import Outcome, attempt

TEXT = "P(i) = a.i -> (Skip [] b{x = f(1, y[2]);} -> P(i));\n#assert P(0) deadlockfree;\n"
GOOD = Sample("good", ".csp", "P = a -> P;\n#assert P deadlockfree;\n")


def shown(text: str, parts: list[tuple[int, int]]) -> set[str]:
    tokens = tokenise(text)
    return {untokenise(tokens[start:end]).strip() for start, end in parts}


def test_tokens_are_the_text() -> None:
    assert len(all_samples()) > 150
    for sample in all_samples():
        assert untokenise(tokenise(sample.text)).rstrip() == sample.text.rstrip(), sample.name


def test_parts_are_those_of_the_grammar() -> None:
    tokens = tokenise(TEXT)
    groups = shown(TEXT, [(part.start, part.end) for part in groups_of(tokens)])
    assert {"(1, y[2])", "[2]", "{x = f(1, y[2]);}", "(i)", "(0)"} < groups
    items = shown(TEXT, [(part.start, part.end) for part in items_of(tokens)])
    assert {"#assert P(0) deadlockfree;", "x = f(1, y[2]);", "1", "y[2]", "Skip"} <= items
    operands = shown(TEXT, [(part.start, part.end) for part in operands_of(tokens)])
    assert {"f(1, y[2])", "y[2]", "P(0)", "x", "2"} <= operands


def test_elements_of_xml_are_groups() -> None:
    text = '<a id="1"><b/><b></b></a>'
    groups = shown(text, [(part.start, part.end) for part in groups_of(tokenise(text))])
    assert groups == {text, "<b/>", "<b></b>"}


def test_a_number_stands_for_one_mutant() -> None:
    assert [mutant(number) for number in range(30)] == [mutant(number) for number in range(30)]
    assert len({mutant(number) for number in range(30)}) == 30


def test_a_mutation_changes_the_text() -> None:
    assert all(mutate(TEXT, "csp", Random(seed)) != TEXT for seed in range(50))


def test_a_model_gets_a_verdict(tmp_path: Path) -> None:
    assert attempt(GOOD, tmp_path) == Outcome("verdict", "HOLDS")
    bad = Sample("bad", ".csp", "P = a -> ;\n#assert P deadlockfree;\n")
    assert attempt(bad, tmp_path).kind == "refusal"


def test_an_exception_is_a_defect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise KeyError("gone")

    monkeypatch.setattr(library, "check", fail)
    outcome = attempt(GOOD, tmp_path)
    assert outcome.is_defect and outcome.kind == "exception"
    assert outcome.detail.rstrip().endswith("KeyError: 'gone'")


def test_shrinking_keeps_what_shows_the_defect() -> None:
    sample = Sample("s", ".csp", TEXT, "first\nsecond")
    assert shrink(sample, lambda one: "y[2" in one.text).text.split() == ["y[2"]


PLANTED = """
import json, os, sys, time
for number in range(*map(int, sys.argv[1:])):
    print(json.dumps({"number": number}), flush=True)
    if number == 4: os.abort()
    if number == 7: time.sleep(600)
    line = {"kind": "verdict", "detail": "HOLDS", "name": "", "suffix": ".csp", "text": "", "queries": None}
    print(json.dumps({"number": number, **line}), flush=True)
"""


def test_a_campaign_continues_after_an_abort_and_an_endless_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "COMMAND", (sys.executable, "-c", PLANTED))
    monkeypatch.setattr(campaign, "SECONDS_MAX", 5.0)
    found = campaign.run_mutants(range(10))
    assert found.counts == {"verdict HOLDS": 8, "abort": 1, "no end": 1}
    assert [(one.number, one.outcome.kind) for one in found.findings] == [(4, "abort"), (7, "no end")]
    assert found.findings[0].sample == mutant(4)


def test_a_finding_is_saved_with_its_model(tmp_path: Path) -> None:
    finding = campaign.Finding(3, Outcome("abort", "exit code -6"), GOOD)
    path = campaign.save(finding, tmp_path)
    assert path.read_text(encoding="utf-8") == GOOD.text
    assert "mutant 3 of good: abort" in (path.parent / "finding.txt").read_text(encoding="utf-8")
