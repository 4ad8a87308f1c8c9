"""A session with four parties, of which a storage party and a validator lie from the first moment on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kabis.session.console import Console, Ended, opened, to_lines
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.protocol.members import Memberships

PARTITIONS = 16
ROUNDS = 3
COUNT = PARTITIONS * 12 * ROUNDS
LIARS = ("--fault", "storage-1=alter", "--fault", "validator-2=equivocate")


def pushed(first: int, count: int) -> list[dict[str, object]]:
    return [
        {"value": f"event {number}", "key": "k", "partition": number % PARTITIONS}
        for number in range(first, first + count)
    ]


def by_partition(values: list[dict[str, object]]) -> dict[object, list[object]]:
    found: dict[object, list[object]] = {}
    for each in values:
        found.setdefault(each["partition"], []).append(each["value"])
    return found


def consume_all(run: Console, count: int) -> list[dict[str, object]]:
    """All events, from a consumer that asks the party first that lies at first."""
    stop = ("--max", count, "--timeout", 30)
    return run.do(
        "consume", "orders", "--from-beginning", "--nearest", "storage-1", *stop, "--json"
    ).objects()


def topic_at(data: Path, party: str) -> str:
    """The name of a topic that this storage party keeps while it is not validated."""
    genesis = ClusterFolder(data).genesis()
    names = (f"logs-{number}" for number in range(1000))
    return next(name for name in names if Memberships(genesis.members).party_of(name) == party)


def test_nothing_is_lost_while_two_parties_lie(tmp_path: Path) -> None:
    data = tmp_path / "cluster"
    with opened(data) as run:
        assert "4 validators and 3 storage parties answer" in run.do("up", "--detach", *LIARS).output
        assert len(run.cluster.find()) == 7
        push_to_both_kinds(run, data)
        events = read_under_lies(run)
        lies_without_validation(run, data)
        caught(run)
        export(run, tmp_path)
        pids = [each.pid for each in run.cluster.find().values()]
        run.do("down")
        assert not any(is_running(pid) for pid in pids)
        verify_elsewhere(tmp_path)
        start_again(run, events)
        assert run.do("down").output.count("storage-") == 3
        assert run.cluster.find() == {}


def push_to_both_kinds(run: Console, data: Path) -> None:
    run.do("topic", "create", "orders", "--partitions", PARTITIONS)
    honest, lying = topic_at(data, "storage-2"), topic_at(data, "storage-1")
    for topic in (honest, lying):
        run.do("topic", "create", topic, "--unvalidated")
        given = "".join(f"line {number}\n" for number in range(50))
        assert run.do("produce", topic, given=given).output == (
            f"50 events acknowledged at {topic}-0 0 to 49, not validated\n"
        )
    for number in range(ROUNDS):
        size = COUNT // ROUNDS
        told = run.do("produce", "orders", "--json", given=to_lines(pushed(number * size, size))).objects()
        per_partition = size // PARTITIONS
        assert sorted((each["partition"], each["index"]) for each in told) == [
            (partition, number * per_partition + offset)
            for partition in range(PARTITIONS)
            for offset in range(per_partition)
        ]
        assert all(each["validated"] for each in told)


def read_under_lies(run: Console) -> list[dict[str, object]]:
    events = consume_all(run, COUNT)
    assert by_partition(events) == by_partition(pushed(0, COUNT))
    per_partition = COUNT // PARTITIONS
    assert sorted((each["partition"], each["index"]) for each in events) == [
        (partition, index) for partition in range(PARTITIONS) for index in range(per_partition)
    ]
    assert {each["producer"] for each in events} == {"producer"}
    first = run.do("consume", "orders", "--group", "billing", "--from-beginning", "--max", 100, "--json")
    assert len(first.lines()) == 100
    return events


def lies_without_validation(run: Console, data: Path) -> None:
    """Table 1: a topic that is not validated has one party's word, and a validating consumer none of it."""
    honest, lying = topic_at(data, "storage-2"), topic_at(data, "storage-1")
    validating = run.do("consume", honest, "--from-beginning", "--timeout", 0.5)
    assert validating.output == ""
    assert validating.told == (
        f"note: {honest} is not validated, so a validating consumer receives nothing from it;"
        " use --no-validate to read it\n"
    )
    plain = ("--from-beginning", "--no-validate", "--max", 50, "--timeout", 30)
    true = [f"line {number}" for number in range(50)]
    assert run.do("consume", honest, *plain).lines() == true
    told = run.do("consume", lying, *plain).lines()
    assert told == [line[:-1] + chr(ord(line[-1]) ^ 1) for line in true]


def all_answer_and_one_is_caught(seen: Ended) -> bool:
    status = json.loads(seen.output)
    return all(party["answers"] for party in status["parties"]) and bool(status["evidence"])


def caught(run: Console) -> None:
    seen = run.look(all_answer_and_one_is_caught, "status", "--json")
    status = json.loads(seen.output)
    assert seen.code == 0
    assert [(each["role"], each["name"]) for each in status["evidence"]] == [("validator", "validator-2")]
    assert status["makes_progress"]
    assert [party["name"] for party in status["parties"] if party["answers"]] == [
        *(f"validator-{number}" for number in range(1, 5)),
        *(f"storage-{number}" for number in range(1, 4)),
    ]
    # On a busy machine a correct party may be late, which is a note against it too.
    assert "storage-1" in {each["party"] for each in status["suspicions"]}
    height = status["evidence"][0]["height"]
    line = f"evidence: validator validator-2 contradicted itself, block {height}"
    assert line in run.look(lambda seen: line in seen.lines(), "status").lines()


def export(run: Console, tmp_path: Path) -> None:
    """Event 5 of partition 3, and nothing else of the cluster but its public keys."""
    elsewhere = tmp_path / "court"
    elsewhere.mkdir()
    run.do("receipt", "export", "orders", 5, "--partition", 3, "--out", elsewhere / "receipt.json")
    shutil.copy(run.data / "genesis.json", elsewhere / "keys.json")


def verify_elsewhere(tmp_path: Path) -> None:
    """The cluster is down and its folder out of reach."""
    command = [sys.executable, "-m", "veristream.cli", "kabis", "receipt", "verify", "receipt.json"]
    done = subprocess.run(
        [*command, "--genesis", "keys.json", "--json"],
        cwd=tmp_path / "court",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    shown = json.loads(done.stdout)
    facts = ("holds", "topic", "partition", "value", "key", "producer", "sequence")
    value = f"event {3 + 5 * PARTITIONS}"
    assert [shown[name] for name in facts] == [True, "orders", 3, value, "k", "producer", 5]
    assert len(shown["validators"]) >= 3
    assert len(shown["storage"]) == 2


def start_again(run: Console, events: list[dict[str, object]]) -> None:
    """All parties are correct now; what was there is there, and it goes on behind it."""
    run.do("up", "--detach")
    assert sorted(consume_all(run, COUNT), key=place) == sorted(events, key=place)
    group = ("--group", "billing", "--max", COUNT - 100, "--timeout", 30, "--json")
    rest = run.do("consume", "orders", *group)
    assert len({place(each) for each in rest.objects()}) == COUNT - 100
    told = run.do("produce", "orders", "--json", given=to_lines(pushed(COUNT, PARTITIONS))).objects()
    assert {each["index"] for each in told} == {COUNT // PARTITIONS}
    assert by_partition(consume_all(run, COUNT + PARTITIONS)) == by_partition(pushed(0, COUNT + PARTITIONS))
    seen = run.look(all_answer_and_one_is_caught, "status", "--json")
    evidence = json.loads(seen.output)["evidence"]
    assert [each["name"] for each in evidence] == ["validator-2"]


def place(event: dict[str, object]) -> tuple[object, object]:
    return event["partition"], event["index"]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not (Path(f"/proc/{pid}/cmdline").exists() and not Path(f"/proc/{pid}/cmdline").read_bytes())
