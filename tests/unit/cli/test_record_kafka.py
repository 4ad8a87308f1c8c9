"""`veristream record kafka`: wrong input is told before any broker starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from veristream.cli.app import app
from veristream.recording.recording import Recording


def record(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["record", "kafka", *words])
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--workload", "send"), "did you mean `sends`?"),
        (("--faults", "kil"), "did you mean `kill`?"),
        (("--set", "acks=1"), "`acks` belongs to nothing that is recorded"),
        (("--set", "producer.acks"), "write --set KEY=VALUE"),
        (("--bootstrap", "127.0.0.1:1", "--faults", "kill"), "needs brokers that were started here"),
        (("--bootstrap", "127.0.0.1:1", "--set", "broker.x=1"), "only to those that are started here"),
        (("--bootstrap", "nowhere:port"), "is not the address of a Kafka broker"),
    ],
)
def test_wrong_input_is_told(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    code, output = record(*words, "--to", str(tmp_path / "h"))
    assert (code, told in output) == (2, True), output
    assert not (tmp_path / "h").exists()


def test_a_history_is_not_overwritten(tmp_path: Path) -> None:
    Recording(tmp_path / "h", "test").close(complete=True)
    code, output = record("--to", str(tmp_path / "h"))
    assert (code, "already contains a history" in output) == (2, True), output


@pytest.mark.parametrize("missing", ["confluent_kafka", "pyarrow"])
def test_what_is_not_installed_is_told(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; from veristream.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "record", "kafka"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    told = f"error: recording Kafka needs {missing}\nhint: pip install 'veristream[kafka,spark]'\n"
    assert done.stderr == told


def test_help_teaches() -> None:
    code, output = record("--help")
    assert code == 0
    for word in ("--set producer.acks=1", "--faults", "veristream audit kafka-history", "Exit code"):
        assert word in output
    done = CliRunner().invoke(app, ["record", "--help"])
    assert "kafka" in done.output
