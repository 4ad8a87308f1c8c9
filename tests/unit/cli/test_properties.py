"""`veristream properties`: the catalogue as text and as JSON."""

from __future__ import annotations

import json
from typing import Any


def test_the_list(run: Any) -> None:
    lines = run("properties").stdout.splitlines()
    assert lines[:3] == [
        "on models and on histories:",
        "",
        "  acknowledged means delivered",
    ]
    assert lines.count("on models only:") == 1
    assert "      models of Kafka: 3 prove it, 6 refute it" in lines  # aborted is never read


def test_one_property(run: Any, golden: Any) -> None:
    golden("catalogue/entries.txt", run("properties", "committed means processed", "a silent").stdout)


def test_json(run: Any) -> None:
    (document,) = json.loads(run("properties", "fenced", "--json").stdout)["properties"]
    assert document["name"] == "a fenced producer never commits"
    assert document["on_histories"] is True
    assert [one["kind"] for one in document["anomalies"]] == ["zombie commit"]
    assert document["models"][0] == {
        "system": "Kafka",
        "name": "transactions_before",
        "file": "models/kafka_transactions/transactions.py",
        "constants": {"CLIENT": 0, "VERSION": 0, "VERIFY": 0},
        "property": "fenced_never_commits",
        "verdict": "holds",
        "proves": True,
        "source": "KIP-98: the epoch fences zombies",
    }


def test_unknown_names(run: Any) -> None:
    done = run("properties", "fenced", "nothing at all")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "the catalogue has no property called nothing at all" in done.stderr
