"""Real brokers beside the models: what each configuration loses, doubles, reorders and keeps."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.missing import is_missing
from tests.pages import DOCS, read_blocks
from veristream.brokers.kafka import find_program as find_kafka
from veristream.brokers.nsq.build import find_programs as find_nsq
from veristream.brokers.rabbitmq.build import find_programs as find_rabbitmq
from veristream.cli.app import app
from veristream.errors import EnvironmentFailure
from veristream.history.properties import Property

pytestmark = [pytest.mark.brokers]

DELIVERED, ONCE, ORDER = Property.DELIVERED, Property.ONCE, Property.ORDER
BOUNDED, FINAL = Property.BOUNDED, Property.FINAL
Verdicts = Mapping[str, Mapping[str, str]]

ABORTED, WHOLE, FENCED = Property.ABORTED, Property.WHOLE, Property.FENCED
PROCESSED, FORWARD, EXCLUSIVE = Property.PROCESSED, Property.FORWARD, Property.EXCLUSIVE

FINDERS: Mapping[str, Callable[[], object]] = {
    "kafka": find_kafka,
    "rabbitmq": find_rabbitmq,
    "nsq": find_nsq,
}

KAFKA: Verdicts = {
    "acks-all": {DELIVERED: "held", ONCE: "held", ORDER: "held"},
    "acks-1": {DELIVERED: "10 acknowledged messages were lost"},
    "unclean": {DELIVERED: "10 acknowledged messages were lost", ONCE: "held"},
    "retries": {DELIVERED: "held", ONCE: "violated"},
    "reordering": {DELIVERED: "held", ORDER: "1 send was stored before an earlier one"},
    "one-in-flight": {DELIVERED: "held", ONCE: "1 message came twice", ORDER: "held"},
    "idempotent": {DELIVERED: "held", ONCE: "held", ORDER: "held"},
    "idempotent-reordering": {DELIVERED: "held", ORDER: "held", ONCE: "held"},
    "read-uncommitted": {
        ABORTED: (
            "12 receives of aborted messages, "
            "6 receives of messages before their transactions were committed"
        )
    },
    "read-committed": {ABORTED: "held", WHOLE: "held"},
    "late-write": {ABORTED: "1 receive of an aborted message"},
    "late-write-verified": {ABORTED: "held"},
    "fenced": {FENCED: "held"},
    "auto-commit": {
        PROCESSED: "30 messages were never processed, although commits are past them",
        FORWARD: "held",
        EXCLUSIVE: "held",
    },
    "manual-commit": {PROCESSED: "held", FORWARD: "held", EXCLUSIVE: "held"},
}
RABBITMQ: Verdicts = {
    "persistent": {DELIVERED: "held"},
    "transient": {DELIVERED: "100 acknowledged messages were lost"},
    "forgotten": {DELIVERED: "held"},
    "mirrored": {DELIVERED: "20 acknowledged messages were lost"},
    "quorum": {DELIVERED: "held", ORDER: "held", BOUNDED: "held"},
    "requeue": {DELIVERED: "held", ONCE: "10 messages came twice", ORDER: "held", FINAL: "held"},
    "cut": {DELIVERED: "held", ONCE: "10 messages came twice", ORDER: "held", FINAL: "held"},
    "prefetch": {DELIVERED: "held", BOUNDED: "held"},
}
NSQ: Verdicts = {
    "memory": {DELIVERED: "100 acknowledged messages were lost"},
    "stopped": {
        DELIVERED: "held",
        ONCE: "5 messages came twice",
        FINAL: "held",
    },
    "disk": {DELIVERED: "100 acknowledged messages were lost"},
    "finished": {
        ONCE: "5 messages came twice",
        FINAL: "5 deliveries of messages that were acknowledged",
    },
    "synced": {DELIVERED: "held", ONCE: "held", FINAL: "held"},
    "in-flight": {DELIVERED: "violated", BOUNDED: "held"},
    "timeout": {DELIVERED: "held", ONCE: "10 messages came twice", FINAL: "held"},
    "ready": {DELIVERED: "held", ONCE: "held", BOUNDED: "held"},
}


def reproduce(broker: str, trials: Verdicts, page: Path) -> list[dict[str, Any]]:
    """Runs the trials as the command does, and returns them; none differs without an explanation."""
    try:
        FINDERS[broker]()
    except EnvironmentFailure as missing:
        is_missing(missing.render())
    chosen = [word for name in trials for word in ("--trial", name)]
    done = CliRunner().invoke(
        app, ["reproduce", "--real", broker, *chosen, "--json", "--html", str(page)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    found: list[dict[str, Any]] = document["trials"]
    return found


def told(result: Mapping[str, Any], expected: str) -> str:
    """What a result says, in the words of what is expected of it: the verdict alone, or the anomalies."""
    return str(result["verdict"] if expected in ("held", "violated") else result["reason"])


def differences(found: list[dict[str, Any]], expected: Verdicts) -> list[str]:
    wrong = []
    for one in found:
        results = {result["property"]: result for result in one["results"]}
        for name, words in expected[one["trial"]].items():
            if told(results[name], words) != words:
                wrong.append(f"{one['trial']}, {name}: {results[name]['reason']}, not {words}")
    return wrong


@pytest.mark.parametrize(
    ("broker", "expected", "losing"),
    [
        pytest.param("kafka", KAFKA, 2, marks=pytest.mark.xdist_group("replicated")),
        pytest.param("rabbitmq", RABBITMQ, 2, marks=pytest.mark.xdist_group("rabbitmq")),
        pytest.param("nsq", NSQ, 3, marks=pytest.mark.xdist_group("nsq")),
    ],
)
def test_the_broker_does_what_its_settings_promise(
    broker: str, expected: Verdicts, losing: int, tmp_path: Path
) -> None:
    """Also: a page with a witness of each loss, and no difference from a model without an explanation."""
    page = tmp_path / "page.html"
    found = reproduce(broker, expected, page)
    assert [one["trial"] for one in found] == list(expected)
    assert differences(found, expected) == []
    lost = [one for one in found if any("lost" in result["reason"] for result in one["results"])]
    assert len(lost) == losing
    assert page.read_text(encoding="utf-8").count("lost write (1 of") >= losing


OUTCOMES = {
    "record": {0},
    "audit lossy": {1},
    "audit synced": {0, 1},  # a message on the way may be lost, as the page says
    "check": {0, 1},
    "reproduce": {0},
}
"""The exit codes of the tutorial's commands, by how they begin."""


@pytest.mark.xdist_group("nsq")
def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of the page, as it stands there."""
    try:
        find_nsq()
    except EnvironmentFailure as missing:
        is_missing(missing.render())
    (tmp_path / "models").symlink_to(DOCS.parent / "models")
    monkeypatch.chdir(tmp_path)
    commands = [
        line for _, block in read_blocks("tutorial-audit.md", "sh") for line in block.splitlines() if line
    ]
    assert len(commands) == 9
    checked = []
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "veristream"
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        (allowed,) = [codes for begins, codes in OUTCOMES.items() if " ".join(words).startswith(begins)]
        assert done.exit_code in allowed, f"{command}: {done.output}"
        if words[0] == "check":
            checked.append(done.exit_code)
        if words[:2] == ["audit", "lossy"]:
            assert "lost write" in done.output
    assert checked == [1, 0, 1], "violated, holds, violated"
