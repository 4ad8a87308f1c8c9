"""A bucket of one partition with millions of events: a right verdict in bounded memory, or a clear error.

`VERISTREAM_BUCKET_EVENTS` says how many events it has; `make bucket` takes 50 million.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.unit.history.job import alone
from veristream.history.job.memory import BYTES_PER_EVENT
from veristream.history.properties import Property
from veristream.history.verdicts import Anomaly, Word
from veristream_testing.histories.one_partition import CONSUMER, PRODUCER, OnePartition, write

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("one partition")]

EVENTS = int(os.environ.get("VERISTREAM_BUCKET_EVENTS", "2500000"))
CLEAN, PLANTED = (OnePartition(EVENTS // 3, clean) for clean in (True, False))
SMALL = OnePartition(1000)
SPARE_BYTES = 128 << 20
"""What an audit takes besides its events: row groups that are being read, and the compiled loops."""
NUMBERS = {"events": 0, "producer": PRODUCER, "consumer": CONSUMER}
"""The numbers of what the audit tells by name."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the histories `clean`, `planted` and `small`."""
    folder = tmp_path_factory.mktemp("one-partition")
    for name, of in (("clean", CLEAN), ("planted", PLANTED), ("small", SMALL)):
        write(folder / name, of)
    return folder


def run_alone(place: Path, name: str, *limit: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(Path(alone.__file__)), str(place / "small"), str(place / name), *limit]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def assert_right(audit: dict[str, Any], of: OnePartition) -> None:
    """Asserts that an audit has exactly the anomalies that a history has, and what held over how much."""
    assert audit["events"] == of.events
    names = {"kind", *Anomaly.__slots__}
    found = {
        Anomaly(**{name: _number(name, value) for name, value in each.items() if name in names})
        for result in audit["results"]
        for each in result["anomalies"]
    }
    assert found == of.anomalies()
    counts = Counter(kind for result in audit["results"] for kind in Counter(result["counts"]).elements())
    assert counts == Counter(each.kind for each in of.anomalies())
    results = {result["property"]: (result["verdict"], result["reason"]) for result in audit["results"]}
    assert results[Property.ONE_OFFSET] == (
        Word.HELD,
        f"{of.messages + (not of.clean)} offsets had one message each",
    )
    if of.clean:
        assert results[Property.DELIVERED] == (
            Word.HELD,
            f"{of.messages} acknowledged messages were received",
        )
        pairs = 2 * (of.messages - 1)
        assert results[Property.ORDER] == (Word.HELD, f"{pairs} pairs of messages were in order")


def _number(name: str, value: Any) -> Any:
    return NUMBERS[value] if name in ("stream", "process") and isinstance(value, str) else value


@pytest.mark.parametrize(("name", "of"), [("clean", CLEAN), ("planted", PLANTED)])
def test_the_verdict_is_right_and_memory_bounded(place: Path, name: str, of: OnePartition) -> None:
    ended = run_alone(place, name)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert_right(told["audit"], of)
    assert told["peak"] - told["before"] < SPARE_BYTES + BYTES_PER_EVENT * of.events


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_too_little_memory_is_an_error(place: Path, share: float) -> None:
    ended = run_alone(place, "clean", str(int(share * 60 * EVENTS) >> 20))
    told = json.loads(ended.stdout)
    assert ended.returncode == 3, ended.stderr
    assert told["error"]["message"].startswith("too little memory on ")
    assert told["error"]["message"].endswith(
        f"the largest bucket has {CLEAN.events:,} events, which take about "
        f"{CLEAN.events * BYTES_PER_EVENT / 1e6:,.0f} MB"
    )
    assert told["error"]["hint"] == (
        "record into more buckets, or audit where there is more memory; a partition is always in one bucket"
    )
