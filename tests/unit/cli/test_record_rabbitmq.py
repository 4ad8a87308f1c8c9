"""`veristream record rabbitmq` without a broker: what it refuses, and what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from veristream.cli.app import app


def record(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["record", "rabbitmq", *words], catch_exceptions=False)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--queue", "stream"], "there are no stream queues"),
        (["--faults", "kil"], "unknown fault `kil`"),
        (["--set", "client.prefech=1"], "clients have no setting `prefech`"),
        (["--set", "client.prefetch"], "write --set KEY=VALUE"),
        (["--url", "http://x"], "is no URL of RabbitMQ"),
        (["--url", "amqp://127.0.0.1:1", "--faults", "kill"], "needs nodes that were started here"),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts(words: list[str], said: str, tmp_path: Path) -> None:
    code, output = record("--to", str(tmp_path / "h"), *words)
    assert (code, said in output) == (2, True), output
    assert not (tmp_path / "h").exists()


def test_a_broker_that_does_not_answer_is_named(tmp_path: Path) -> None:
    code, output = record("--to", str(tmp_path / "h"), "--url", "amqp://u:secret@127.0.0.1:1")
    assert (code, "no RabbitMQ at amqp://u@127.0.0.1:1" in output) == (3, True), output
    assert "secret" not in output


@pytest.mark.parametrize("missing", ["pika", "pyarrow"])
def test_what_is_not_installed_is_told(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; from veristream.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "record", "rabbitmq"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    told = f"error: recording RabbitMQ needs {missing}\nhint: pip install 'veristream[rabbitmq,spark]'\n"
    assert done.stderr == told
