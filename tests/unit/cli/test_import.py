"""`veristream import`: what it says, and its exit codes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.unit.history.foreign.test_jepsen_log import ASSIGNED
from tests.unit.history.foreign.test_kafka_clients import PRODUCER, lines


def test_the_command(tmp_path: Path, run: Any) -> None:
    edn = tmp_path / "history.edn"
    edn.write_text(ASSIGNED, encoding="utf-8")
    done = run("import", str(edn), "--to", str(tmp_path / "h"))
    assert done.exit_code == 0, done.stderr
    assert (
        done.stdout == f"{tmp_path}/h: 12 events of 3 processes in 1 stream (jepsen)\n  transactions: no\n"
    )
    edn.write_text(ASSIGNED[:-20])
    done = run("import", str(edn), "--to", str(tmp_path / "cut"))
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {edn}:16:")
    assert not (tmp_path / "cut").exists()
    edn.write_text(ASSIGNED)
    assert run("import", str(edn), "--to", str(tmp_path / "cut")).exit_code == 0


def test_the_command_says_what_is_not_known(tmp_path: Path, run: Any) -> None:
    client = tmp_path / "client.log"
    client.write_text(lines(*PRODUCER[:-1]), encoding="utf-8")
    done = run("import", str(client), "--to", str(tmp_path / "h"), "--incomplete")
    assert done.stdout.splitlines()[1:] == [
        "  receipts: all",
        "  incomplete: nothing will be concluded from what is absent",
        "  producers: not all that was sent is known",
    ]


def test_the_example_of_the_document(tmp_path: Path, run: Any, monkeypatch: Any) -> None:
    text = (Path(__file__).parents[3] / "docs" / "import.md").read_text(encoding="utf-8")
    (history,) = re.findall(r"^```clojure\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (session,) = re.findall(r"^```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "history.edn").write_text(history, encoding="utf-8")
    command, _, printed = session.partition("\n")
    assert run(*command.removeprefix("$ veristream ").split()).stdout == printed
