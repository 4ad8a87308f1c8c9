"""`veristream audit`: verdicts as text, JSON and a page, exit codes, and what is told of errors."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.history.job.recorded import record
from veristream import library
from veristream.history.manifest import Stream
from veristream_testing.histories.notation import history

HELD = history("a>1@0 b<a1@0 bE0-1")
LOST = history("a>1@0 a>2@1 b<a1@0 bE0-2")


def test_text(run: Any, tmp_path: Path) -> None:
    done = run("audit", record(tmp_path / "h", LOST), "--property", "delivered", "--property", "order")
    assert done.exit_code == 2
    assert "several properties match delivered" in done.stderr
    done = run("audit", record(tmp_path / "i", LOST), "--property", "means delivered")
    assert done.exit_code == 1
    assert "1 acknowledged message was lost" in done.stdout
    assert "message 0:2 to `log`/0 was acknowledged, and no reader received it" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 property: 1 violated"


def test_exit_codes(run: Any, tmp_path: Path) -> None:
    held, lost = record(tmp_path / "h", HELD), record(tmp_path / "l", LOST)
    assert run("audit", held, "--property", "at most once", "--property", "means delivered").exit_code == 0
    assert run("audit", lost).exit_code == 1
    assert run("audit", held).exit_code == 4
    assert run("audit", tmp_path / "none").exit_code == 2


def test_json(run: Any, tmp_path: Path) -> None:
    folder = record(tmp_path / "h", LOST)
    done = run("audit", folder, "--json", "--property", "means delivered")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert (document["history"], document["events"]) == (str(folder), 7)
    (result,) = document["results"]
    assert result["verdict"] == "violated"
    assert result["counts"] == {"lost write": 1}
    assert [one["operation"] for one in result["anomalies"][0]["operations"]] == ["send", "read to end"]
    everything = json.loads(run("audit", folder, "--json").stdout)
    assert len(everything["results"]) == 15


def test_page(run: Any, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    assert run("audit", record(tmp_path / "h", LOST), "--html", page).exit_code == 1
    text = page.read_text(encoding="utf-8")
    assert "Messages acknowledged to producers" in text
    assert "<svg" in text
    assert "no reader received it" in text


def test_dumps_of_logs(run: Any, tmp_path: Path) -> None:
    of = replace(LOST, manifest=replace(LOST.manifest, source="kafka", streams=(Stream("t"),)))
    folder, page = record(tmp_path / "h", of), tmp_path / "audit.html"
    dump = tmp_path / "broker-1.txt"
    dump.write_text(
        "Dumping /data/t-0/00000000000000000009.log\nLog starting offset: 9\n", encoding="utf-8"
    )
    why = "offset 1 was acknowledged, and the log begins at offset 9: it was deleted"
    done = run("audit", folder, "--log", dump, "--html", page)
    assert done.exit_code == 1
    assert f"brokers' logs: {why}\n" in done.stdout
    assert why in page.read_text(encoding="utf-8")
    results = json.loads(run("audit", folder, "--log", dump, "--json").stdout)["results"]
    assert [one["attribution"] for one in results[0]["anomalies"]] == [why]
    results = json.loads(run("audit", folder, "--json").stdout)["results"]
    assert ["attribution" in one for one in results[0]["anomalies"]] == [False]


@pytest.mark.parametrize(
    ("dump", "told"),
    [
        (None, "does not exist"),
        ("hello\n", "is no recording that Veristream knows"),
        ("Dumping /data/u-0/00000000000000000000.log\nLog starting offset: 0\n", "no log of a topic of"),
        ("Dumping /data/t-0/00000000000000000000.log\n", "ends before the log of its last segment"),
    ],
)
def test_a_wrong_dump(run: Any, tmp_path: Path, dump: str | None, told: str) -> None:
    of = replace(LOST, manifest=replace(LOST.manifest, source="kafka", streams=(Stream("t"),)))
    path = tmp_path / "broker-1.txt"
    if dump is not None:
        path.write_text(dump, encoding="utf-8")
    done = run("audit", record(tmp_path / "h", of), "--log", path, "--json")
    assert done.exit_code == 2
    assert told in json.loads(done.stdout)["error"]["message"]
    assert str(path) in done.stderr


def test_a_page_in_no_folder(run: Any, tmp_path: Path) -> None:
    done = run("audit", record(tmp_path / "h", LOST), "--html", tmp_path / "no" / "audit.html")
    assert done.exit_code == 2
    assert "the folder of" in done.stderr


def test_errors_as_json(run: Any, tmp_path: Path) -> None:
    (tmp_path / "h").mkdir()
    done = run("audit", tmp_path / "h", "--json")
    assert done.exit_code == 2
    error = json.loads(done.stdout)["error"]
    assert error["message"] == f"`{tmp_path / 'h'}` contains nothing"
    assert error["hint"]
    assert error["message"] in done.stderr


def test_a_cluster_that_does_not_answer(run: Any, tmp_path: Path) -> None:
    done = run("audit", record(tmp_path / "h", LOST), "--master", "spark://127.0.0.1:1", "--json")
    assert done.exit_code == 3
    assert "no Spark master answers" in json.loads(done.stdout)["error"]["message"]


def test_too_little_memory(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(library, "audit", fail)
    done = run("audit", record(tmp_path / "h", LOST), "--json")
    assert done.exit_code == 3
    assert json.loads(done.stdout)["error"] == {
        "message": "out of memory",
        "hint": "record into more buckets, or audit on a cluster with --master",
    }


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    import subprocess

    code = (
        "import sys\nfrom veristream.cli.app import app\n"
        "try:\n    app(['audit', '--help'])\nexcept SystemExit: pass\n"
        "print([each for each in ('numpy', 'pyarrow', 'pyspark', 'pandas') if each in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
