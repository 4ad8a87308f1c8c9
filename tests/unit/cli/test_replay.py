"""`veristream replay`: what is wrong before a broker is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from veristream.cli.app import app
from veristream.known import find_shipped

MODEL = find_shipped() / "kafka_transactions" / "transactions.py"
OTHER = find_shipped() / "peterson" / "peterson.net"
DELIVERY = find_shipped() / "delivery"


def fail(*arguments: str) -> str:
    """Returns the message of a call that ends with exit code 2."""
    result = CliRunner().invoke(app, ["replay", *arguments])
    assert result.exit_code == 2, result.output
    return result.stderr


def test_a_property_needs_a_run() -> None:
    assert "a replay needs one property" in fail(str(MODEL))
    assert "the model has no property called nothing" in fail(str(MODEL), "-p", "nothing")
    said = fail(str(MODEL), "-p", "no_hanging_transaction", "-D", "PRODUCERS=1", "-D", "VERIFY=1")
    assert "no_hanging_transaction has no run to replay: it holds" in said


def test_a_model_needs_a_table_for_the_broker_and_the_property(tmp_path: Path) -> None:
    small = ["-D", "PRODUCERS=1"]
    said = fail(str(MODEL), "-p", "no_hanging_transaction", *small, "--on", "nsq")
    assert "has no table for transactions.py on nsq" in said
    copied = tmp_path / MODEL.name
    copied.write_text(MODEL.read_text(encoding="utf-8"), encoding="utf-8")
    assert "has no replay.toml beside it" in fail(str(copied), "-p", "no_hanging_transaction", *small)
    said = fail(str(MODEL), "-p", "late_write_has_an_older_epoch", *small)
    assert "no property of a history stands for late_write_has_an_older_epoch" in said


def test_nothing_is_replayed_on_other_brokers() -> None:
    said = fail(str(DELIVERY / "nsq_lookup.py"), "-p", "removed_stays_out", "--on", "nsqd")
    assert "nothing is replayed on nsqd" in said
    assert "did you mean `nsq`?" in said


@pytest.mark.parametrize(
    ("model", "arguments", "wrong", "right", "message"),
    [
        (
            "rabbitmq_clients.py",
            ["-p", "acknowledged_is_delivered", "-D", "CUTS=1", "--on", "rabbitmq"],
            'do = "cuts"',
            'do = "cut"',
            "nobody knows how to do `cuts` to RabbitMQ",
        ),
        (
            "nsq_channels.py",
            ["-p", "channel_gets_everything", "--on", "nsq"],
            'call = "subscripe"',
            'call = "subscribe"',
            "`subscripe` is no call of a client of NSQ",
        ),
        (
            "nsq_lookup.py",
            ["-p", "removed_stays_out", "--on", "nsq"],
            'removed_stays_out = "removed stays in"',
            'removed_stays_out = "removed stays out"',
            "`removed stays in` is nothing that is observed of NSQ",
        ),
    ],
    ids=["rabbitmq", "channels", "lookup"],
)
def test_a_word_that_means_nothing_is_told_before_a_broker_starts(
    tmp_path: Path, model: str, arguments: list[str], wrong: str, right: str, message: str
) -> None:
    (tmp_path / model).write_text((DELIVERY / model).read_text(encoding="utf-8"), encoding="utf-8")
    table = (DELIVERY / "replay.toml").read_text(encoding="utf-8")
    assert table.count(right) == 1
    (tmp_path / "replay.toml").write_text(table.replace(right, wrong), encoding="utf-8")
    assert message in fail(str(tmp_path / model), *arguments)


def test_a_setting_that_means_nothing_is_told_before_a_broker_starts() -> None:
    lookup = [str(DELIVERY / "nsq_lookup.py"), "-p", "removed_stays_out", "--on", "nsq"]
    assert "`broker.x` belongs to nothing of NSQ" in fail(*lookup, "--set", "broker.x=1")
    clients = [str(DELIVERY / "rabbitmq_clients.py"), "-p", "acknowledged_is_delivered", "-D", "CUTS=1"]
    said = fail(*clients, "--on", "rabbitmq", "--set", "client.prefetch=x")
    assert "`client.prefetch=x` is not valid" in said


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not what `veristream check --json` prints"),
        ('{"model": "m.py"}', "is not what `veristream check --json` prints"),
        ('{"model": "m.py", "results": [{"property": "p", "trace": null}]}', "has no run of p"),
        ('{"model": "m.py", "results": [{"property": "p", "trace": []}]}', "m.py, which does not exist"),
    ],
)
def test_a_file_that_is_no_run_is_an_error(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(content, encoding="utf-8")
    assert message in fail(str(path), "-p", "p")


def test_a_step_that_lacks_something_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    document = {"model": str(MODEL), "results": [{"property": "p", "trace": [{"action": None}]}]}
    path.write_text(json.dumps(document), encoding="utf-8")
    assert "lacks its action, process or state" in fail(str(path), "-p", "p")
    assert "does not exist" in fail(str(tmp_path / "none.json"), "-p", "p")


def test_a_run_that_cannot_be_executed_says_which_action_has_no_counterpart(tmp_path: Path) -> None:
    name = "not_coordinator_is_answered"
    made = CliRunner().invoke(app, ["check", str(MODEL.parent / "init_pid.py"), "-p", name, "--json"])
    path = tmp_path / "trace.json"
    path.write_text(made.stdout, encoding="utf-8")
    result = CliRunner().invoke(app, ["replay", str(path), "-p", name, "--json"])
    assert result.exit_code == 4, result.output
    document = json.loads(result.stdout)
    assert document["outcome"] == "not executable"
    assert "step 1, ask(1) of Client(0) has no counterpart" in document["reason"]
