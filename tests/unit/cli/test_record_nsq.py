"""`veristream record nsq`: what is wrong is said before anything is recorded."""

from __future__ import annotations

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
