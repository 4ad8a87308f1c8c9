"""Runs of models, made to happen on a real Kafka."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from veristream.cli.app import app
from veristream.history.properties import Property
from veristream.history.verdicts import Word
from veristream.known import find_shipped
from veristream.replay.outcome import NotReproduced, Offsets, Replayed, Reproduced
from veristream.replay.run import Request, replay
from veristream.replay.trace import find_run

pytestmark = pytest.mark.brokers

MODEL = find_shipped() / "kafka_transactions" / "transactions.py"
ONE = {"PRODUCERS": 1}
VERIFYING = {"broker.transaction.partition.verification.enable": "true"}


def run(
    folder: Path,
    name: str,
    constants: Mapping[str, int],
    settings: Mapping[str, str] | None = None,
    seconds: float = 60.0,
    *,
    steered: bool = True,
) -> Replayed:
    found = find_run(MODEL, name, constants)
    return replay(Request(found, "kafka", settings or {}, seconds, steered), folder)


def test_a_transaction_hangs_as_in_the_model_and_only_if_the_run_is_steered(tmp_path: Path) -> None:
    steered = run(tmp_path / "steered", "no_hanging_transaction", ONE)
    assert isinstance(steered.finding, Reproduced)
    assert steered.finding.judgement.property == Property.HANGING
    assert steered.finding.judgement.counts == {"hanging transaction": 1}
    assert steered.course is not None
    assert len(steered.course.done) == 12
    # The abort marker is at 0, the late write at 1; nobody reads what others then send.
    assert steered.offsets == (Offsets(0, last_stable=1, end=5), Offsets(1, last_stable=3, end=3))

    free = run(tmp_path / "free", "no_hanging_transaction", ONE, steered=False)
    assert isinstance(free.finding, NotReproduced)
    assert free.finding.step is None
    assert free.finding.judgement.word is Word.HELD
    # The write at 0, its abort marker at 1.
    assert free.offsets == (Offsets(0, last_stable=5, end=5), Offsets(1, last_stable=3, end=3))


def test_the_next_transaction_adopts_a_late_write_although_its_epoch_is_newer(tmp_path: Path) -> None:
    found = run(tmp_path, "aborted_is_never_read", {**ONE, "BUMP": 1, "VERSION": 2, "STEERED": 1})
    assert isinstance(found.finding, Reproduced)
    assert found.finding.judgement.counts == {"aborted read": 2}
    assert found.course is not None
    assert len(found.course.done) == len(found.plan.steps) == 26


def test_a_broker_that_verifies_leaves_the_run_where_it_refuses_the_late_write(tmp_path: Path) -> None:
    found = run(tmp_path, "no_hanging_transaction", ONE, VERIFYING)
    assert isinstance(found.finding, NotReproduced)
    assert found.finding.step is not None
    assert found.finding.step.title == "step 12, append_write(0) of Partition(0)".replace("(0) of", " of")
    assert found.finding.instead.startswith("Produce 1 of Producer(0): refused with INVALID_")
    assert found.finding.judgement.word is Word.HELD
    assert found.offsets == (Offsets(0, last_stable=4, end=4), Offsets(1, last_stable=3, end=3))


def test_a_message_that_never_comes_ends_the_replay_with_a_whole_recording(tmp_path: Path) -> None:
    # The client waits for its write before it ends the transaction, longer than the replay does.
    patient = {"producer.message.timeout.ms": "30000"}
    found = run(tmp_path, "no_hanging_transaction", ONE, patient, seconds=3.0)
    assert isinstance(found.finding, NotReproduced)
    assert found.finding.step is not None
    assert found.finding.step.action == "abort"
    assert found.finding.instead.startswith(
        "the client of Producer(0) sent no EndTxn; Produce 1 of Producer(0) waits"
    )
    assert found.audit is not None
    assert found.audit.manifest.complete
    assert "hanging transaction" not in found.finding.judgement.counts
    for path in (tmp_path / "brokers").glob("*/address"):
        host, _, port = path.read_text(encoding="utf-8").strip().rpartition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), 1.0)


def test_the_command_tells_what_happened_beside_the_run(tmp_path: Path) -> None:
    page, kept = tmp_path / "replay.html", tmp_path / "kept"
    arguments = ["-p", "no_hanging_transaction", "-D", "PRODUCERS=1", "--json"]
    result = CliRunner().invoke(
        app, ["replay", str(MODEL), *arguments, "--html", str(page), "--to", str(kept)]
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["outcome"], document["property"]) == ("reproduced", "no transaction hangs")
    assert (document["taken"], document["left_at"]) == (12, None)
    assert document["offsets"][0] == {"partition": 0, "last_stable": 1, "end": 5}
    assert document["steps"][-1]["happened"] == "Produce 1 of Producer(0): ok"
    assert (kept / "history" / "history.json").exists()
    assert "message sequence chart of 12 steps" in page.read_text(encoding="utf-8")
