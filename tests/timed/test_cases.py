"""The small models under `cases`: every construct of UPPAAL's language, with verdicts derived by hand.

`NAME.xta` or `NAME.xml` shows one construct; `NAME.q` has the queries of a `.xta`. `NAME.toml` has:

- `file`: the model;
- `[[query]]`: `text` as in the model, in the same order; `verdict`, *holds*, *violated* or *unknown* (a
  run-time error of the model); `why`, the derivation; for `sup` and `inf`, `value`, such as `= 5` if 5 is
  attained and `< 5` if it is only approached. A list of values counts as one query per value.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import veristream as vs
from veristream.verdict import Holds, Unknown, word

FOLDER = Path(__file__).parent / "cases"


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected result of one query."""

    text: str
    verdict: str
    why: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Case:
    """A model with its expected results."""

    path: Path
    queries: tuple[Expected, ...]


def read_case(path: Path) -> Case:
    """Reads a case; an unknown key is an error."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    assert table.keys() == {"file", "query"}, path
    return Case(path.parent / table["file"], tuple(expected(entry) for entry in table["query"]))


def expected(entry: dict[str, Any]) -> Expected:
    assert {"text", "verdict", "why"} <= entry.keys() <= {"text", "verdict", "why", "value"}, entry
    assert entry["verdict"] in ("holds", "violated", "unknown"), entry
    assert ("value" in entry) == entry["text"].startswith(("sup", "inf")), entry
    return Expected(entry["text"], entry["verdict"], entry["why"], entry.get("value"))


CASES = [pytest.param(read_case(path), id=path.stem) for path in sorted(FOLDER.glob("*.toml"))]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    results = vs.check(case.path)
    assert [result.property for result in results] == [query.text for query in case.queries]
    found = [
        (query.text, word(result.verdict)) for query, result in zip(case.queries, results, strict=True)
    ]
    assert found == [(query.text, query.verdict) for query in case.queries]
    for query, result in zip(case.queries, results, strict=True):
        if query.value is not None:
            assert isinstance(result.verdict, Holds)
            assert result.verdict.reason.endswith(f" {query.value}"), (query.text, result.verdict.reason)
        if query.verdict == "unknown":
            assert isinstance(result.verdict, Unknown)
            assert result.verdict.fault is not None, query.text


def test_every_model_has_expected_results() -> None:
    models = {path.stem for path in FOLDER.iterdir() if path.suffix in (".xta", ".xml")}
    assert models == {path.stem for path in FOLDER.glob("*.toml")}
    assert len(models) >= 80
