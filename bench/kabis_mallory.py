"""What registered attackers cost honest clients: the latency of events beside each attack.

A real cluster on this machine, one honest producer that pushes an event when the one before is done,
and one attacker at a time, as `tests/kabis/mallory` has them. The ratio is the 99th percentile beside the
attack over that without one. The attacker uses the cores of the parties here, so there are two controls:
`nothing` is measured like an attack, and `spin` keeps one core busy without a message.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from _measure import finish, say, table

from veristream_testing.mallory.arena import Arena, attacked, opened, percentile
from veristream_testing.mallory.attacks import ATTACKS, CONTROLS

EVENTS = 100
QUICK_EVENTS = 20


@dataclass(frozen=True, slots=True)
class Beside:
    """How an honest producer fares beside an attack."""

    attack: str
    median_ms: float
    p99_ms: float
    largest_mib: int


def main() -> None:
    """Measures all attacks, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_EVENTS} events beside each attack")
    parser.add_argument("attacks", nargs="*", help="names of attacks; by default all")
    given = parser.parse_args()
    names = given.attacks or [attack.__name__ for attack in ATTACKS]
    names = [*(control.__name__ for control in CONTROLS), *names]
    events = QUICK_EVENTS if given.quick else EVENTS
    with (
        tempfile.TemporaryDirectory(prefix="kabis-mallory-") as folder,
        opened(Path(folder) / "cluster", names) as arena,
    ):
        arena.work(events)  # what the first events pay for is no matter of attacks
        undisturbed = describe(arena, "undisturbed", arena.work(events))
        found = [measure(arena, name, events) for name in names]
    report(undisturbed, found)


def measure(arena: Arena, name: str, events: int) -> Beside:
    """Has honest clients work beside an attack."""
    with attacked(arena, name) as goes_on:
        latencies = arena.work(events)
        assert goes_on()
    assert arena.cluster.ended() == {}
    beside = describe(arena, name, latencies)
    say(f"{name}: median {beside.median_ms:.0f} ms, p99 {beside.p99_ms:.0f} ms")
    return beside


def describe(arena: Arena, name: str, latencies: list[float]) -> Beside:
    """Sums up latencies."""
    middle = sorted(latencies)[len(latencies) // 2]
    return Beside(name, middle, percentile(latencies), max(arena.memory_mib().values()))


def report(undisturbed: Beside, found: list[Beside]) -> None:
    """Prints the table and the results."""
    rows = [
        (
            each.attack,
            f"{each.median_ms:.0f}",
            f"{each.p99_ms:.0f}",
            f"{each.p99_ms / undisturbed.p99_ms:.1f}",
            str(each.largest_mib),
        )
        for each in (undisturbed, *found)
    ]
    head = ("attack", "median ms", "p99 ms", "ratio", "peak MiB so far")
    table("Latency of an honest producer beside one attacker", head, rows)
    ratios = {each.attack: each.p99_ms / undisturbed.p99_ms for each in found}
    finish("kabis_mallory", ratios, {"beside": [asdict(each) for each in (undisturbed, *found)]})


if __name__ == "__main__":
    main()
