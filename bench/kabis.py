"""Measures Kabis in the setting of its paper, on every stack, compared with plain Kafka.

Three producers and one consumer, each a process; four validators and three storage parties (F = 1); an
event counts only after it has been flushed, or acknowledged by all replicas. Events have 100 B to 100 KB;
none, half or all of the topics are validated. The stacks are Kabis alone; Kafka with Kabis' validators;
Kafka with CometBFT; and plain confluent-kafka with the same acknowledgements on one of the same clusters.
Each Kabis stack also runs the paper's pattern: batches of one event, one in flight per producer.

CPU time is the total of all parties, brokers and clients per event. On a busy machine, it says more than
the rate.

    python bench/kabis.py --quick       only what the ratios need, in five minutes
    python bench/kabis.py               the whole grid, 50,000 events per producer where the disk allows
    python bench/kabis.py --embedded    only Kabis alone, without Kafka

The results are plotted like figures 4 and 5 of the paper: bench/results/kabis-*.svg and .png.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from _kabis import PRODUCERS, Setting
from _measure import RESULTS, finish, say, table
from _plots import draw
from _runs import Case, Figures, measure
from _stacks import KabisStack, KafkaStack, Stack, running_kabis, running_kafkas

from veristream.kabis.protocol.partitions import party_of

EMBEDDED = "embedded pair"
KAFKA = "Kafka"
COMETBFT = "Kafka and CometBFT"
PLAIN = "plain Kafka"
TOPICS = 4
SHARES = {"none": 0, "half": TOPICS // 2, "all": TOPICS}
RUNS_MAX = 3
WAYS = {"all checked": (True, 1), "none checked": (False, 1), "by hundreds": (True, 100)}
"""How events are pushed: whether the result of each is checked, and the number of events per call."""
PAPER = "the paper's pattern"
PACED = "150 events/s"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to run: events per producer by size, the sizes compared with plain Kafka, and the runs."""

    events: dict[int, int]
    compared: tuple[int, ...]
    runs: int
    paper_events: int

    def setting(self, size: int, share: str) -> Setting:
        """Returns a setting with events of a size and a share of validated topics."""
        names = [f"{share}-{size}-{number}" for number in range(TOPICS)]
        validated = SHARES[share]
        return Setting(
            f"{size} B, {share}",
            tuple(names[:validated]),
            tuple(names[validated:]),
            size,
            self.events[size],
        )


QUICK = Scale({100: 20_000, 1_000: 20_000, 10_000: 2_000}, (100, 1_000), 1, 40)
WHOLE = Scale(
    {100: 50_000, 1_000: 50_000, 10_000: 20_000, 100_000: 2_000},
    (100, 1_000, 10_000, 100_000),
    RUNS_MAX,
    200,
)


def measure_kabis(on: str, stack: KabisStack, scale: Scale, shares: Sequence[str]) -> list[Figures]:
    """Measures the grid on a stack, the paper's pattern, and a slow stream.

    The two sizes of validated events that are compared with each other run first, three times.
    """
    compared = [Case(on, stack, scale.setting(size, "all")) for size in (100, 1_000)]
    found = measure(compared, RUNS_MAX)
    done = {case.setting.name for case in compared}
    for size in scale.events:
        for share in shares:
            setting = scale.setting(size, share)
            if setting.name not in done:
                found += measure([Case(on, stack, setting)], scale.runs)
    topics = tuple(f"paper-{number}" for number in range(TOPICS))
    paper = Setting(PAPER, topics, (), 100, scale.paper_events, paper=True)
    paced = Setting(PACED, ("paced",), (), 100, 150, pace_s=0.02)
    return found + measure([Case(on, stack, paper)], scale.runs) + measure([Case(on, stack, paced)], 1)


def compare_with_plain(stack: KabisStack, plain: KafkaStack, scale: Scale) -> list[Figures]:
    """Compares unvalidated topics with plain Kafka: same cluster, same number of topics, alternating.

    Three variants: checking the result of each event, by its future or by a callback; not checking; and
    pushing many events per call and checking all, compared with the peer's callbacks.
    """
    found: list[Figures] = []
    for size in scale.compared:
        cases = []
        for way, (reports, together) in WAYS.items():
            setting = replace(
                WHOLE.setting(size, "none"), name=f"{size} B, {way}", reports=reports, together=together
            )
            where = f"{size}-{reports}-{together}"
            if together == 1:
                cases.append(Case(PLAIN, plain, replace(setting, unvalidated=_names(f"plain-{where}"))))
            here = _names(f"kabis-{where}", lambda topic: _is_first(stack, topic))
            cases.append(Case(KAFKA, stack, replace(setting, unvalidated=here)))
        found += measure(cases, RUNS_MAX)
    return found


def _names(begin: str, suits: Callable[[str], bool] = lambda topic: True) -> tuple[str, ...]:
    """Returns topic names that satisfy the predicate, with every run number appended."""
    found: list[str] = []
    number = 0
    while len(found) < TOPICS:
        name, number = f"{begin}-{number}", number + 1
        if all(suits(f"{name}-{run}") for run in range(RUNS_MAX)):
            found.append(name)
    return tuple(found)


def _is_first(stack: KabisStack, topic: str) -> bool:
    """Whether the first cluster stores a topic."""
    genesis = stack.cluster.genesis
    return party_of(genesis, topic) == genesis.storage[0].name


def warm_up(*stacks: Stack) -> None:
    """Runs each stack without counting: a new broker is slow until its code is compiled."""
    setting = QUICK.setting(100, "none")
    for number, stack in enumerate(stacks):
        topics = tuple(f"warm-{number}-{topic}" for topic in setting.unvalidated)
        measure([Case("warm-up", stack, replace(setting, unvalidated=topics))], RUNS_MAX)


def main() -> None:
    """Runs the benchmark, prints the results and writes them."""
    quick, alone = "--quick" in sys.argv[1:], "--embedded" in sys.argv[1:]
    scale = QUICK if quick else WHOLE
    shares = ("all", "none") if quick else tuple(SHARES)
    found: list[Figures] = []
    say(f"{len(PRODUCERS)} producers, 1 consumer, F = 1:")
    with tempfile.TemporaryDirectory(prefix="kabis-bench-") as name:
        folder = Path(name)
        with running_kabis(folder / "embedded") as stack:
            found += measure_kabis(EMBEDDED, stack, scale, shares)
        if not alone:
            with running_kafkas(folder / "kafkas") as kafkas:
                plain = KafkaStack(kafkas, kafkas.names()[0])
                with running_kabis(folder / "on-kafka", kafkas) as stack:
                    warm_up(plain, stack)
                    found += compare_with_plain(stack, plain, scale)
                    found += measure_kabis(KAFKA, stack, scale, shares)
            with (
                running_kafkas(folder / "other") as kafkas,
                running_kabis(folder / "on-both", kafkas, cometbft=True) as stack,
            ):
                warm_up(stack)
                found += measure_kabis(COMETBFT, stack, scale, shares)
    _finish(found)


def _finish(found: list[Figures]) -> None:
    rows = [
        (
            f"{each.on}: {each.setting.name}",
            f"{each.consumed_per_s:,.0f}",
            f"{each.produced_per_s:,.0f}",
            f"{each.cpu_us:,.1f}",
            f"{each.p50_ms:,.1f}",
            f"{each.p99_ms:,.1f}",
        )
        for each in found
    ]
    head = ("events, validated", "consumed/s", "produced/s", "CPU µs", "p50 ms", "p99 ms")
    table("push to pull, everything on this machine", head, rows)
    figures = {
        each.on: {
            other.setting.name: {
                "consumed_per_s": round(other.consumed_per_s),
                "produced_per_s": round(other.produced_per_s),
                "cpu_us": round(other.cpu_us, 1),
                "p50_ms": round(other.p50_ms, 1),
                "p99_ms": round(other.p99_ms, 1),
            }
            for other in found
            if other.on == each.on
        }
        for each in found
    }
    pictures = [str(path) for path in draw(found, RESULTS)]
    finish("kabis", ratios(found), {**figures, "pictures": pictures})


def ratios(found: Sequence[Figures]) -> dict[str, float]:
    """Returns the ratios; keys of Kabis alone have no stack prefix."""
    by_name = {(each.on, each.setting.name): each for each in found}
    given: dict[str, float] = {}
    for on, before in ((EMBEDDED, ""), (KAFKA, "kafka_"), (COMETBFT, "cometbft_")):
        if (on, PAPER) not in by_name:
            continue
        small, large = by_name[on, "100 B, all"], by_name[on, "1000 B, all"]
        given |= {
            f"{before}validated_events_per_s": small.consumed_per_s,
            f"{before}over_paper_pattern": small.consumed_per_s / by_name[on, PAPER].consumed_per_s,
            f"{before}1000_over_100_bytes": large.consumed_per_s / small.consumed_per_s,
        }
    for size in sorted({each.setting.size_bytes for each in found if each.on == PLAIN}):
        for way, (reports, _) in WAYS.items():
            theirs = by_name[PLAIN, f"{size} B, {'all' if reports else 'none'} checked"]
            ratio = by_name[KAFKA, f"{size} B, {way}"].consumed_per_s / theirs.consumed_per_s
            given[f"unvalidated_over_kafka_{size}_bytes_{way.replace(' ', '_')}"] = ratio
    if any(each.on == PLAIN for each in found):
        given["unvalidated_over_kafka"] = given["unvalidated_over_kafka_100_bytes_all_checked"]
    return given


if __name__ == "__main__":
    main()
