"""The settings of a recording of RabbitMQ, and what cannot be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from veristream.errors import EnvironmentFailure, ModelError
from veristream.recording.rabbitmq.record import Request, record_rabbitmq
from veristream.recording.rabbitmq.running import RunningRabbit, parameters, without_password
from veristream.recording.rabbitmq.settings import Clients, Settings, read_settings

NOBODY = "amqp://guest:secret@127.0.0.1:1/%2F"


def test_settings_are_read_and_written() -> None:
    flat = {
        "queue.kind": "quorum",
        "queue.x-delivery-limit": "3",
        "broker.heartbeat": "5",
        "client.prefetch": "1",
        "client.confirms": "false",
        "client.requeue-every": "7",
    }
    found = read_settings(flat)
    assert found.clients == Clients(confirms=False, prefetch=1, requeue_every=7)
    assert found.declared == {"x-queue-type": "quorum", "x-delivery-limit": 3}
    assert found.attempts_max == 4
    assert flat.items() <= found.flat().items()
    assert read_settings(found.flat()) == found


def test_a_mirrored_queue_says_its_policy() -> None:
    flat = read_settings({"queue.kind": "mirrored", "policy.ha-promote-on-failure": "when-synced"}).flat()
    assert flat["policy.ha-promote-on-failure"] == "when-synced"
    assert (flat["policy.ha-mode"], flat["policy.ha-sync-mode"]) == ("all", "manual")
    assert not [key for key in Settings().flat() if key.startswith("policy.")]


def test_arguments_have_types() -> None:
    words = {"x-max-length": "10", "x-single-active-consumer": "true", "x-overflow": "reject-publish"}
    assert Settings(arguments=words).declared == {
        "x-max-length": 10, "x-single-active-consumer": True, "x-overflow": "reject-publish"
    }  # fmt: skip


def test_delivery_modes_and_limits() -> None:
    assert Settings().properties.delivery_mode == 2
    assert Settings(clients=Clients(persistent=False)).properties.delivery_mode == 1
    assert Settings(arguments={"x-delivery-limit": "3"}).attempts_max is None


@pytest.mark.parametrize(
    ("given", "said", "hint"),
    [
        ({"prefetch": "1"}, "`prefetch` belongs to nothing", "client.KEY"),
        ({"clients.prefetch": "1"}, "belongs to nothing", "did you mean `client`?"),
        ({"client.prefech": "1"}, "clients have no setting `prefech`", "did you mean `prefetch`?"),
        ({"client.prefetch": "many"}, "`client.prefetch=many` is not valid", "a number from 0"),
        ({"client.prefetch": "-1"}, "`client.prefetch=-1` is not valid", "a number from 0"),
        ({"client.confirms": "1"}, "`client.confirms=1` is not valid", "true or false"),
        ({"queue.kind": "stream"}, "there are no stream queues", "classic, quorum, mirrored"),
    ],
)
def test_what_is_no_setting(given: dict[str, str], said: str, hint: str) -> None:
    with pytest.raises(ModelError) as wrong:
        read_settings(given)
    assert said in wrong.value.message
    assert hint in wrong.value.hint


@pytest.mark.parametrize(
    "url", ["http://x", "127.0.0.1:5672", "amqp://u:secret@h:port", "amqp://h?heartbeat=x"]
)
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(ModelError, match="is no URL of RabbitMQ") as wrong:
        parameters(url)
    assert "secret" not in wrong.value.message


def test_passwords_are_not_shown() -> None:
    assert without_password(NOBODY) == "amqp://guest@127.0.0.1:1/%2F"
    assert without_password("amqp://127.0.0.1:1") == "amqp://127.0.0.1:1"
    with pytest.raises(EnvironmentFailure, match=r"no RabbitMQ at amqp://guest@127.0.0.1:1/%2F: ") as wrong:
        RunningRabbit({"a": NOBODY}).check()
    assert "secret" not in wrong.value.message


def test_somebody_elses_nodes_are_not_killed() -> None:
    rabbit = RunningRabbit({"a": NOBODY})
    with pytest.raises(ModelError, match="needs nodes that can be stopped"):
        _ = rabbit.local
    with pytest.raises(ModelError, match="needs proxies"):
        _ = rabbit.proxies


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request(("kill",), urls=(NOBODY,)), "the fault `kill` needs nodes that were started here"),
        (Request(settings=Settings(broker={"heartbeat": "5"}), urls=(NOBODY,)), "settings of nodes"),
        (Request(settings=Settings("mirrored"), urls=(NOBODY,)), "the policy that mirrors"),
        (Request(settings=Settings(policy={"ha-mode": "all"})), "only mirrored queues have a policy"),
        (Request(urls=("http://x",)), "is no URL of RabbitMQ"),
    ],
)
def test_what_cannot_be_recorded(tmp_path: Path, request_: Request, said: str) -> None:
    """Nothing is started or written before that is known."""
    with pytest.raises(ModelError) as wrong:
        record_rabbitmq(tmp_path / "h", request_)
    assert said in wrong.value.message
    assert not (tmp_path / "h").exists()


def test_without_a_broker_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="no RabbitMQ at"):
        record_rabbitmq(tmp_path / "h", Request(urls=(NOBODY,)))
    assert not (tmp_path / "h").exists()


def test_a_history_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    with pytest.raises(ModelError, match="already contains a history"):
        record_rabbitmq(tmp_path, Request())
