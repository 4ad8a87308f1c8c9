"""Kabis on its embedded pair: events from push to pull, in the setting of the paper.

Three producers, one consumer, four validators and three storage parties (F = 1), each a process, all on
this machine, and every log flushed before anything is acknowledged. Events of 100 B, 1 KB and 10 KB; none,
half and all of the topics validated. Beside it the paper's pattern on the same stack: a batch of one event,
one in flight per producer.

Processor time is that of all parties and clients together, by event: where other programs run beside, it
says more than the rate.

    python bench/kabis.py --quick
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _kabis import Setting, encode
from _measure import ROOT, finish, middle, say, table

from veristream.kabis.access import Access
from veristream.kabis.actions import RegisterKey, SetTopic
from veristream.kabis.administration import act_all
from veristream.kabis.cluster import Cluster
from veristream.kabis.folder import ADMIN, ClusterFolder
from veristream.kabis.transactions import prove_possession

PRODUCERS = ("producer-1", "producer-2", "producer-3")
TOPICS = 4
SIZES = (100, 1_000, 10_000)
SECONDS_MAX = 300.0
START_S = 0.2
COMPARED = ("100 B, all", "1000 B, all")


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run gave."""

    setting: Setting
    events_per_s: float
    cpu_us: float
    p50_ms: float
    p99_ms: float


def run(cluster: Cluster, setting: Setting) -> Figures:
    """Runs the clients of a setting on topics of its own."""
    folder = cluster.folder
    access = Access(folder)
    topics = [SetTopic(topic, 1, topic in setting.validated) for topic in setting.topics]
    act_all(access.genesis, access.admin(), access.author(ADMIN), topics)
    count = setting.events * len(PRODUCERS)
    clients = [_start("consumer", folder, setting, str(count))]
    clients += [_start(name, folder, setting) for name in PRODUCERS]
    try:
        for client in clients:
            assert client.stdout is not None
            ready = client.stdout.readline()
            if ready != "ready\n":
                raise RuntimeError(f"a client did not start: {ready!r}")
        parties_s = _cpu_s(cluster)
        begin = time.monotonic() + START_S
        for client in clients:
            assert client.stdin is not None
            client.stdin.write(f"{begin}\n")
            client.stdin.flush()
        results = [_end(client) for client in clients]
        cpu_s = _cpu_s(cluster) - parties_s + sum(result["cpu_s"] for result in results)
    finally:
        for client in clients:
            client.kill()
            client.wait()
    pulled: dict[str, Any] = results[0]
    rate = count / (pulled["ended"] - begin)
    return Figures(setting, rate, cpu_s / count * 1e6, pulled["p50_ms"], pulled["p99_ms"])


def _cpu_s(cluster: Cluster) -> float:
    """The processor time that the parties have used so far."""
    ticks = 0
    for party in cluster.running.values():
        fields = Path(f"/proc/{party.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # by the program, and by the system for it
    return ticks / os.sysconf("SC_CLK_TCK")


def _start(role: str, folder: ClusterFolder, setting: Setting, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "bench" / "_kabis.py"), role, str(folder.path), encode(setting)]
    return subprocess.Popen([*command, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _end(client: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = client.communicate(timeout=SECONDS_MAX)
    if client.returncode != 0 or not output:
        raise RuntimeError(f"a client ended with exit code {client.returncode}")
    result: dict[str, Any] = json.loads(output)
    return result


def settings(quick: bool) -> list[Setting]:
    """The grid of the paper: sizes by how many of the topics are validated."""
    found = []
    for size in SIZES:
        # As many at 100 B as at 1 KB: what does not depend on the events must weigh the same in both.
        events = {100: 60_000, 1_000: 60_000, 10_000: 6_000}[size] * (1 if quick else 4) // len(PRODUCERS)
        for label, validated in (("none", 0), ("half", TOPICS // 2), ("all", TOPICS)):
            names = [f"{label}-{size}-{number}" for number in range(TOPICS)]
            found.append(
                Setting(
                    f"{size} B, {label}", tuple(names[:validated]), tuple(names[validated:]), size, events
                )
            )
    return found


def again(setting: Setting, number: int) -> Setting:
    """The same on other topics."""
    return Setting(
        setting.name,
        tuple(f"{name}-{number}" for name in setting.validated),
        tuple(f"{name}-{number}" for name in setting.unvalidated),
        setting.size_bytes,
        setting.events,
        setting.paper,
        setting.pace_s,
    )


def measure(cluster: Cluster, some: Sequence[Setting], runs: int) -> list[Figures]:
    """The median of some runs of each setting, in turn, so that a busy machine favours none of them."""
    rounds = [[run(cluster, again(setting, number)) for setting in some] for number in range(runs)]
    found = [middle(each, lambda figures: figures.events_per_s) for each in zip(*rounds, strict=True)]
    for each in found:
        say(f"  {each.setting.name}: {each.events_per_s:,.0f} events/s, {each.cpu_us:.1f} µs of CPU each")
    return found


def measure_grid(cluster: Cluster, grid: Sequence[Setting], runs: int) -> list[Figures]:
    """The whole grid; first, and more often, the two settings that are compared with one another."""
    compared = [setting for setting in grid if setting.name in COMPARED]
    found = measure(cluster, compared, max(3, runs))
    for setting in grid:
        if setting not in compared:
            found += measure(cluster, [setting], runs)
    names = [setting.name for setting in grid]
    return sorted(found, key=lambda figures: names.index(figures.setting.name))


def main() -> None:
    """Measures, prints and writes the results."""
    quick = "--quick" in sys.argv[1:]
    runs = 1 if quick else 3
    paper_topics = tuple(f"paper-{number}" for number in range(TOPICS))
    with tempfile.TemporaryDirectory(prefix="kabis-bench-") as name:
        folder = ClusterFolder(Path(name))
        with Cluster(folder) as cluster:
            cluster.create()
            cluster.start()
            _register(folder)
            say("Kabis, 3 producers, 1 consumer, F = 1:")
            grid = measure_grid(cluster, settings(quick), runs)
            paper_events = 60 if quick else 300
            alone = (
                Setting("the paper's pattern", paper_topics, (), 100, paper_events, paper=True),
                Setting("150 events/s", ("paced",), (), 100, 150, pace_s=0.02),
            )
            paper, paced = (measure(cluster, [setting], runs)[0] for setting in alone)
    _finish(grid, paper, paced)


def _register(folder: ClusterFolder) -> None:
    """Gives each producer a key, and has the admin register it."""
    access = Access(folder)
    chain_id = access.genesis.chain_id
    actions = []
    for name in PRODUCERS:
        key = folder.add_client(name)
        actions.append(RegisterKey(name, 0, key.public, prove_possession(chain_id, name, 0, key)))
    act_all(access.genesis, access.admin(), access.author(ADMIN), actions)


def _finish(grid: list[Figures], paper: Figures, paced: Figures) -> None:
    rows = [
        (
            each.setting.name,
            f"{each.events_per_s:,.0f}",
            f"{each.cpu_us:,.1f}",
            f"{each.p50_ms:,.1f}",
            f"{each.p99_ms:,.1f}",
        )
        for each in [*grid, paper, paced]
    ]
    table(
        "push to pull, everything on this machine",
        ("events, validated", "events/s", "CPU µs", "p50 ms", "p99 ms"),
        rows,
    )
    by_name = {each.setting.name: each.events_per_s for each in grid}
    cpu_us = {each.setting.name: each.cpu_us for each in grid}
    validated = by_name["100 B, all"]
    ratios = {
        "validated_events_per_s": validated,
        "over_paper_pattern": validated / paper.events_per_s,
        "1000_over_100_bytes": by_name["1000 B, all"] / validated,
        "1000_over_100_bytes_cpu": cpu_us["1000 B, all"] / cpu_us["100 B, all"],
        "all_over_none": validated / by_name["100 B, none"],
    }
    figures = {
        "events_per_s": by_name | {"paper": paper.events_per_s},
        "cpu_us_per_event": cpu_us,
        "latency_ms_paced": {"p50": paced.p50_ms, "p99": paced.p99_ms},
        "latency_ms_paper": {"p50": paper.p50_ms, "p99": paper.p99_ms},
    }
    finish("kabis", ratios, figures)


if __name__ == "__main__":
    main()
