#!/usr/bin/env python3
"""Measures what a user waits for, from the command to the verdict, ours beside SPIN's and TLC's.

Six models of about 30 to 6 million states. Ours is `veristream check MODEL`, once cold, with every cache of
ours empty, and once warm, after the same command has run before. SPIN runs as its users run it, with its
partial-order reduction: `spin -a`, `gcc -O2 -DSAFETY`, `./pan -m...`, on the model written by hand; TLC on
the exported model, with all cores. All check deadlock freedom, with the invariants or assertions that the
model has. A ratio is the time of the faster peer divided by ours: above 1, we are faster.

- `--wheel` installs the wheel into an empty virtual environment, and measures the CPU time of the first
  check there, with every cache empty. It is part of a full run.
- `--nsq` measures `veristream check models/nsq/nsq.csp`, cold and warm; with `--base COMMIT` also that of
  another commit, alternately. It takes many minutes.

Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _commits import Code, Ran, decided, ours, resolve, run, unpack, workplace
from _measure import ROOT, finish, say, table

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
KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR")  # of the environment, for the installed wheel


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


def measure_cold(code: Code, place: Path, check: Callable[[Code], Ran], runs: int) -> list[Ran]:
    """Runs a check several times, each time with caches that do not exist yet."""
    done = []
    for _ in range(runs):
        caches = place / f"cold-{len(list(place.glob('cold-*')))}"
        caches.mkdir(parents=True)
        done.append(check(code.with_caches(caches)))
    return done


def measure_warm(code: Code, check: Callable[[Code], Ran], runs: int) -> list[Ran]:
    """Runs a check several times after a run that fills the caches."""
    check(code)
    return [check(code) for _ in range(runs)]


def measure(model: Model, code: Code, place: Path, quick: bool) -> Row:
    """Measures one model with all tools."""
    runs = 1 if model.largest else RUNS
    slow = 1 if quick else runs  # cold starts and peers
    say(f"{model.name}: {runs} run(s) warm, {slow} of all others ...")

    def check(one: Code) -> Ran:
        return held(one.check(ROOT / model.path, *model.words()))

    cold = measure_cold(code, place, check, slow)
    warm = measure_warm(code, check, runs)
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
    """Returns the worst ratios, cold also among the models that are large."""
    ratios = {
        "warm_over_best_peer": min(row.warm_ratio for row in rows),
        "cold_over_best_peer": min(row.cold_ratio for row in rows),
    }
    large = [row.cold_ratio for row in rows if row.states >= LARGE]
    return ratios | ({"cold_over_best_peer_large": min(large)} if large else {})


# The wheel.


def first_check(place: Path) -> Ran:
    """Installs the wheel into an empty virtual environment and runs the first check in it."""
    say("installing the wheel into an empty virtual environment ...")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    succeed([*pip, "wheel", str(ROOT), "--no-deps", "--wheel-dir", str(place / "wheel")])
    (wheel,) = (place / "wheel").glob("*.whl")
    succeed([sys.executable, "-m", "venv", str(place / "venv")])
    programs = place / "venv" / "bin"
    succeed([str(programs / "python"), *pip[1:], "install", str(wheel)])
    home = place / "home"
    home.mkdir()
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    words = [str(programs / "veristream"), "check", str(ROOT / SMALLEST.path), "--json"]
    return held(decided(run(words, kept | {"HOME": str(home)}, home)))


def succeed(words: list[str]) -> None:
    """Runs a program that must succeed."""
    ran = run(words)
    if ran.code != 0:
        raise SystemExit(f"{' '.join(words)} ended with {ran.code}: {ran.output}{ran.errors}")


# NSQ.


def measure_nsq(codes: Sequence[Code], place: Path) -> dict[str, dict[str, float]]:
    """Measures the check of the NSQ model by each commit, cold and then warm, alternately."""
    path = ROOT / "models" / "nsq" / "nsq.csp"
    sides = dict(zip(("ours", "base"), codes, strict=False))
    found: dict[str, dict[str, float]] = {f"{side} {code.label}": {} for side, code in sides.items()}
    for heat in ("cold", "warm"):  # the cold run fills the caches of the warm one
        for side, code in sides.items():
            say(f"nsq.csp, {side} {code.label}, {heat} ...")
            caches = place / f"nsq-{side}"
            caches.mkdir(parents=True, exist_ok=True)
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="leave out the largest model and the wheel, and run peers once"
    )
    parser.add_argument(
        "--wheel", action=argparse.BooleanOptionalAction, help="measure the first check after pip install"
    )
    parser.add_argument("--nsq", action="store_true", help="also measure the check of models/nsq/nsq.csp")
    parser.add_argument("--base", metavar="COMMIT", help="with --nsq, also measure this commit")
    options = parser.parse_args(words)
    if options.wheel is None:
        options.wheel = not options.quick
    if options.base is not None:
        if not options.nsq:
            parser.error("--base needs --nsq")
        resolve(options.base)
    return options


def main() -> None:
    options = read_options()
    figures: dict[str, Any] = {"quick": bool(options.quick)}
    with workplace() as place:
        code = ours(place)
        chosen = [model for model in MODELS if not (options.quick and model.largest)]
        rows = [measure(model, code, place, options.quick) for model in chosen]
        table("start of the command to verdict", HEAD, [row.cells() for row in rows])
        say("  ratio: the faster peer's time divided by ours; SPIN with reduction, on Promela by hand")
        ratios = ratios_of(rows)
        figures["rows"] = [asdict(row) for row in rows]
        if options.wheel:
            ran = first_check(place)
            say(
                f"\nfirst check after pip install: {ran.cpu_seconds:.1f} s of CPU, {ran.wall_seconds:.1f} s"
            )
            ratios["first_check_cpu_s"] = ran.cpu_seconds
            figures["first_check_wall_s"] = ran.wall_seconds
        if options.nsq:
            others = [] if options.base is None else [unpack(options.base, place / "base")]
            found = measure_nsq([code, *others], place)
            table("veristream check models/nsq/nsq.csp", NSQ_HEAD, nsq_rows(found))
            ratios |= nsq_ratios(found)
            figures["nsq"] = found
    finish("first", ratios, figures)


if __name__ == "__main__":
    main()
