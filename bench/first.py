#!/usr/bin/env python3
"""Measures what a user waits for, from the command to the verdict, ours beside SPIN's and TLC's.

Six models of about 30 to 6 million states, counted without reduction. Ours is `veristream check MODEL`,
once cold and once warm, after the same command has run before. SPIN runs as its users run it, with its
partial-order reduction: `spin -a`, `gcc -O2 -DSAFETY`, `./pan -m...`, on the model written by hand; TLC on
the exported model, with all cores. All check deadlock freedom, with the invariants or assertions that the
model has. A ratio is the time of the faster peer divided by ours: above 1, we are faster.

What runs, and what cold means, depends on where our code comes from:

- `--wheel`, the default: the wheel is built once and installed into an empty virtual environment, as a user
  has it. Cold, every cache is empty. The CPU time of the very first check is measured, too.
- `--checkout`: this checkout. Cold, every cache is empty, so that Numba compiles the search loops.
- `--quick`: this checkout with the search loops that it has compiled before. Cold, every other cache is
  empty. Building the wheel would take longer than all the rest. It leaves out the largest model.

`--nsq` also measures `veristream check models/nsq/nsq.csp`, cold and warm; with `--base COMMIT` also that
of another commit, alternately. The other commit runs as a checkout. It takes many minutes.

Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _commits import Code, Ran, ours, resolve, unpack, workplace
from _installed import install
from _measure import ROOT, finish, say, table

from veristream.cache import cache_directory
from veristream.errors import EnvironmentFailure
from veristream.export.promela import to_promela
from veristream.export.tla import to_tla
from veristream.ir.network import Network
from veristream.ir.property import Always, DeadlockFree
from veristream.library import load
from veristream.search.limits import count_cores
from veristream_testing.peers import PeerRun, run_spin, run_tlc

SPIN_FLAGS = ("-O2",)  # the runner adds -DSAFETY; partial-order reduction is on
TIMEOUT_S = 1800.0
RUNS = 3
LARGE = 100_000  # states from which a cold start should be faster than the peers, too
WHEEL, CHECKOUT, COMPILED = "wheel", "checkout", "checkout with compiled loops"  # what runs
COLD = {
    WHEEL: "every cache is empty; the compiled search loops come with the wheel",
    CHECKOUT: "every cache is empty; Numba compiles the search loops",
    COMPILED: "every cache is empty but that of the checkout's search loops, which a wheel contains",
}


@dataclass(frozen=True)
class Model:
    """A model of ours, with the same by hand for SPIN if there is one."""

    name: str
    path: str
    by_hand: str | None = None
    constants: tuple[tuple[str, int], ...] = ()
    properties: tuple[str, ...] = ()  # none: all
    largest: bool = False

    def words(self) -> list[str]:
        """Returns the options of `veristream check`."""
        settings = [word for name, value in self.constants for word in ("-D", f"{name}={value}")]
        return settings + [word for name in self.properties for word in ("-p", name)]

    def network(self) -> Network:
        """Returns the network with the properties that are checked, which a peer must be able to check."""
        network = load(ROOT / self.path, dict(self.constants))
        chosen = [one for one in network.properties if not self.properties or one.name in self.properties]
        assert chosen and all(isinstance(one.claim, Always | DeadlockFree) for one in chosen), self.name
        return replace(network, properties=tuple(chosen))

    def promela(self) -> str:
        """Returns the model for SPIN: as written by hand, or else as we export it."""
        if self.by_hand is None:
            return to_promela(self.network())
        defines = "".join(f"#define {name} {value}\n" for name, value in self.constants)
        return defines + (ROOT / self.by_hand).read_text(encoding="utf-8")


def _philosophers(count: int, largest: bool = False) -> Model:
    path = "bench/models/reduction/philosophers"
    constants = (("N", count),)
    return Model(f"philosophers_{count}", f"{path}.net", f"{path}.pml", constants, largest=largest)


SMALLEST = Model("peterson", "bench/models/first/peterson.csp", "bench/models/first/peterson.pml")
MODELS = (
    SMALLEST,
    Model(
        "alternating_bit",
        "models/alternating_bit/alternating_bit.net",
        "bench/models/first/alternating_bit.pml",
        (("CAPACITY", 5),),
        ("no_deadlock", "right_message"),
    ),
    _philosophers(6),
    _philosophers(8),
    Model(
        "kafka",
        "bench/models/reduction/kafka.net",
        "bench/models/reduction/kafka.pml",
        (("RECORDS", 3),),
    ),
    _philosophers(10, largest=True),
)


@dataclass(frozen=True)
class Row:
    """The times of one model in seconds, medians; states are those that each tool stores."""

    model: str
    states: int
    cold_wall: float
    cold_cpu: float
    warm_wall: float
    warm_cpu: float
    spin_states: int
    spin_wall: float
    tlc_states: int
    tlc_wall: float

    @property
    def best_peer(self) -> float:
        """The time of the faster peer."""
        return min(self.spin_wall, self.tlc_wall)

    @property
    def warm_ratio(self) -> float:
        """How many times faster than the faster peer we are with full caches."""
        return self.best_peer / self.warm_wall

    @property
    def cold_ratio(self) -> float:
        """How many times faster than the faster peer we are with empty caches."""
        return self.best_peer / self.cold_wall

    def cells(self) -> list[str]:
        """Formats the row."""
        seconds = (self.cold_wall, self.cold_cpu, self.warm_wall, self.warm_cpu)
        return [
            self.model,
            f"{self.states:,}",
            *(f"{one:.2f}" for one in seconds),
            f"{self.spin_states:,}",
            f"{self.spin_wall:.2f}",
            f"{self.tlc_states:,}",
            f"{self.tlc_wall:.2f}",
            f"{self.warm_ratio:.2f}",
            f"{self.cold_ratio:.2f}",
        ]


HEAD = (
    *("model", "states", "cold s", "cold CPU s", "warm s", "warm CPU s"),
    *("SPIN states", "SPIN s", "TLC states", "TLC s", "warm ratio", "cold ratio"),
)


Renew = Callable[[Path], None]
"""Makes a folder of caches."""


def empty_caches(caches: Path) -> None:
    """Makes a folder of caches that are all empty."""
    caches.mkdir(parents=True)


def caches_with_loops(caches: Path) -> None:
    """Makes a folder of caches that has the loops that this checkout has compiled, and nothing else."""
    compiled = cache_directory("loops")
    compiled.mkdir(parents=True, exist_ok=True)
    own = caches / "veristream"
    own.mkdir(parents=True)
    (own / "loops").symlink_to(compiled.resolve())


def measure_cold(
    code: Code, place: Path, check: Callable[[Code], Ran], renew: Renew, runs: int
) -> list[Ran]:
    """Runs a check several times, each time with new caches."""
    done = []
    for _ in range(runs):
        caches = place / f"cold-{len(list(place.glob('cold-*')))}"
        renew(caches)
        done.append(check(code.with_caches(caches)))
    return done


def measure_warm(code: Code, check: Callable[[Code], Ran], runs: int) -> list[Ran]:
    """Runs a check several times after a run that fills the caches."""
    check(code)
    return [check(code) for _ in range(runs)]


def measure(model: Model, code: Code, place: Path, renew: Renew, quick: bool) -> Row:
    """Measures one model with all tools."""
    runs = 1 if model.largest else RUNS
    slow = 1 if quick else runs  # cold starts and peers
    say(f"{model.name}: {runs} run(s) warm, {slow} of all others ...")

    def check(one: Code) -> Ran:
        return held(one.check(ROOT / model.path, *model.words()))

    warm = measure_warm(code, check, runs)  # first, as it may have to compile loops
    cold = measure_cold(code, place, check, renew, slow)
    promela, tla = model.promela(), to_tla(model.network(), "Model")
    spin = [
        complete(run_spin(promela, deadlocks=True, timeout_s=TIMEOUT_S, cflags=SPIN_FLAGS), "SPIN")
        for _ in range(slow)
    ]
    tlc = [
        complete(run_tlc(tla, workers=count_cores(), deadlocks=True, timeout_s=TIMEOUT_S), "TLC")
        for _ in range(slow)
    ]
    return Row(
        model.name,
        warm[0].states(),
        median(one.wall_seconds for one in cold),
        median(one.cpu_seconds for one in cold),
        median(one.wall_seconds for one in warm),
        median(one.cpu_seconds for one in warm),
        spin[0].distinct_states or 0,
        median(one.wall_seconds for one in spin),
        tlc[0].distinct_states or 0,
        median(one.wall_seconds for one in tlc),
    )


def held(ran: Ran) -> Ran:
    """Returns the run if all properties hold: then all tools have searched everything."""
    if ran.code != 0:
        raise SystemExit(f"a property should hold, but does not: {ran.output}")
    return ran


def complete(found: PeerRun, tool: str) -> PeerRun:
    """Returns a peer's run that found nothing wrong."""
    if found.verdict != "complete":
        raise EnvironmentFailure(f"{tool} ended as {found.verdict}: {found.output[-2000:]}")
    return found


def ratios_of(rows: Sequence[Row]) -> dict[str, float]:
    """Returns the worst ratios, cold also among the models that are large without reduction."""
    ratios = {
        "warm_over_best_peer": min(row.warm_ratio for row in rows),
        "cold_over_best_peer": min(row.cold_ratio for row in rows),
    }
    large = [row.cold_ratio for row in rows if row.tlc_states >= LARGE]
    return ratios | ({"cold_over_best_peer_large": min(large)} if large else {})


def behind(rows: Sequence[Row]) -> list[str]:
    """Returns the ratios below 1, where a peer is faster."""
    found = [
        (row.model, heat, ratio)
        for row in rows
        for heat, ratio in (("warm", row.warm_ratio), ("cold", row.cold_ratio))
        if ratio < 1
    ]
    return [f"{model} {heat} {ratio:.2f}" for model, heat, ratio in found]


# NSQ.


def measure_nsq(codes: Sequence[Code], place: Path, renew: Renew) -> dict[str, dict[str, float]]:
    """Measures the check of the NSQ model by each commit, cold and then warm, alternately.

    `renew` makes our caches."""
    path = ROOT / "models" / "nsq" / "nsq.csp"
    sides = dict(zip(("ours", "base"), codes, strict=False))
    found: dict[str, dict[str, float]] = {f"{side} {code.label}": {} for side, code in sides.items()}
    for heat in ("cold", "warm"):  # the cold run fills the caches of the warm one
        for side, code in sides.items():
            say(f"nsq.csp, {side} {code.label}, {heat} ...")
            caches = place / f"nsq-{side}"
            if heat == "cold":
                (renew if side == "ours" else empty_caches)(caches)
            ran = code.with_caches(caches).check(path)
            found[f"{side} {code.label}"] |= {
                f"{heat}_cpu": ran.cpu_seconds,
                f"{heat}_wall": ran.wall_seconds,
                "assertions": len(ran.results()),
            }
    return found


NSQ_HEAD = ("commit", "assertions", "cold s", "cold CPU s", "warm s", "warm CPU s")


def nsq_rows(found: dict[str, dict[str, float]]) -> list[list[str]]:
    """Formats the figures of NSQ."""
    keys = ("cold_wall", "cold_cpu", "warm_wall", "warm_cpu")
    return [
        [label, f"{one['assertions']:.0f}", *(f"{one[key]:.1f}" for key in keys)]
        for label, one in found.items()
    ]


def nsq_ratios(found: dict[str, dict[str, float]]) -> dict[str, float]:
    """Returns the CPU time of this checkout, and how many times that of the other commit is more."""
    own, *others = found.values()
    ratios = {"nsq_cold_cpu_s": own["cold_cpu"], "nsq_warm_cpu_s": own["warm_cpu"]}
    for base in others:
        ratios["nsq_cold_over_base"] = base["cold_cpu"] / own["cold_cpu"]
        ratios["nsq_warm_over_base"] = base["warm_cpu"] / own["warm_cpu"]
    return ratios


def read_options(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line; a wrong base ends the program before anything is measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="leave out the largest model and the wheel, and run peers once"
    )
    parser.add_argument(
        "--wheel", dest="source", action="store_const", const=WHEEL, help="run the wheel, also with --quick"
    )
    parser.add_argument(
        "--checkout", dest="source", action="store_const", const=CHECKOUT, help="run this checkout"
    )
    parser.add_argument("--nsq", action="store_true", help="also measure the check of models/nsq/nsq.csp")
    parser.add_argument("--base", metavar="COMMIT", help="with --nsq, also measure this commit")
    options = parser.parse_args(words)
    if options.source is None:
        options.source = COMPILED if options.quick else WHEEL
    if options.base is not None:
        if not options.nsq:
            parser.error("--base needs --nsq")
        resolve(options.base)
    return options


def measure_first(code: Code, place: Path) -> Ran:
    """Measures the first check of an installation, which has never run before."""
    caches = place / "first-caches"
    empty_caches(caches)
    ran = held(code.with_caches(caches).check(ROOT / SMALLEST.path))
    say(f"first check after pip install: {ran.cpu_seconds:.2f} s of CPU, {ran.wall_seconds:.2f} s")
    return ran


def show(rows: Sequence[Row], source: str) -> None:
    """Prints the table and what it means."""
    table(f"start of the command to verdict, {source}", HEAD, [row.cells() for row in rows])
    say("  ratio: the faster peer's time divided by ours; SPIN with reduction, on Promela by hand")
    say(f"  cold: {COLD[source]}")
    say(f"  below 1: {', '.join(behind(rows)) or 'none'}")


def main() -> None:
    options = read_options()
    figures: dict[str, Any] = {"quick": bool(options.quick), "ours": options.source}
    ratios: dict[str, float] = {}
    with workplace() as place:
        code = install(place) if options.source == WHEEL else ours(place)
        renew: Renew = empty_caches
        if options.source == WHEEL:
            ran = measure_first(code, place)
            ratios["first_check_cpu_s"] = ran.cpu_seconds
            figures["first_check_wall_s"] = ran.wall_seconds
        if options.source == COMPILED:
            renew = caches_with_loops
            code = code.with_caches(place / "warm")
            renew(code.caches)
        chosen = [model for model in MODELS if not (options.quick and model.largest)]
        rows = [measure(model, code, place, renew, options.quick) for model in chosen]
        show(rows, options.source)
        ratios |= ratios_of(rows)
        figures |= {"cold": COLD[options.source], "below_1": behind(rows)}
        figures["rows"] = [asdict(row) for row in rows]
        if options.nsq:
            others = [] if options.base is None else [unpack(options.base, place / "base")]
            found = measure_nsq([code, *others], place, renew)
            table("veristream check models/nsq/nsq.csp", NSQ_HEAD, nsq_rows(found))
            ratios |= nsq_ratios(found)
            figures["nsq"] = found
    finish("first", ratios, figures)


if __name__ == "__main__":
    main()
