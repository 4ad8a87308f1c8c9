"""`veristream record nsq`: what is wrong is said before anything is recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from veristream.cli.app import app


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--faults", "kil"], 2, "unknown fault `kil`"),
        (["--faults", "cut"], 2, "nsqd cannot get the fault `cut`"),
        (["--channels", "a,a"], 2, "the channels must be different"),
        (["--channels", ","], 2, "there must be one"),
        (["--channels", "a b"], 2, "NSQ has no topic or channel `a b`"),
        (["--set", "sync-every"], 2, "write --set KEY=VALUE"),
        (["--set", "sync-every=1"], 2, "--set sync-every has an option of its own"),
        (["--lookupd", "127.0.0.1:1"], 3, "nsqlookupd does not answer at 127.0.0.1:1"),
        (["--lookupd", "here"], 3, "nsqlookupd does not answer at here"),
        (["--lookupd", "127.0.0.1:1", "--faults", "kill"], 2, "they keep their options"),
        (["--nodes", "0"], 2, "--nodes"),
    ],
)
def test_what_cannot_be_recorded(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    done = CliRunner().invoke(app, ["record", "nsq", "--to", str(tmp_path / "h"), *words])
    assert (done.exit_code, said in done.output) == (code, True), done.output
    assert not (tmp_path / "h").exists()


def test_what_is_not_installed_is_told() -> None:
    program = "import sys; sys.modules['pyarrow'] = None; from veristream.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "record", "nsq"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert done.stderr == "error: recording NSQ needs pyarrow\nhint: pip install 'veristream[spark]'\n"


@pytest.mark.parametrize(
    ("brokers", "option"),
    [
        (("kafka", "rabbitmq", "nsq"), "--to FOLDER"),
        (("kafka", "rabbitmq", "nsq"), "--faults KIND"),
        (("kafka", "rabbitmq", "nsq"), "--seconds S "),
        (("kafka", "rabbitmq", "nsq"), "--rate R "),
        (("kafka", "rabbitmq", "nsq"), "--seed N "),
        (("rabbitmq", "nsq"), "--nodes N "),
        (("kafka",), "--nodes, --brokers N "),
    ],
)
def test_all_recordings_have_the_same_options(brokers: tuple[str, ...], option: str) -> None:
    for broker in brokers:
        assert option in CliRunner().invoke(app, ["record", broker, "--help"]).output
