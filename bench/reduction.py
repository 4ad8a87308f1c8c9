#!/usr/bin/env python3
"""Counts the states that remain after partial-order reduction, ours beside SPIN's.

Four systems, each written naturally: philosophers, a leader election by messages, a token ring, and
Kafka's messaging; and the model of Kafka's paper (models/kafka/kafka.csp). Each is searched in full and
with reduction, by us and by SPIN. SPIN gets the model twice: as we export it, which is one process with
one loop, and as a user of SPIN writes it by hand (bench/models/reduction/*.pml), with processes, channels
and what SPIN knows about them (xr, xs). The comment on top of each .pml file says what differs from ours.

The property is deadlock freedom, with the invariants or assertions that the model has. A ratio is SPIN's
number of stored states with its reduction divided by ours: above 1, we store fewer.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _commits import Code, ours, workplace
from _measure import ROOT, finish, say, table

from veristream.errors import EnvironmentFailure
from veristream.export.promela import to_promela
from veristream.library import load
from veristream_testing.peers import PeerRun, run_spin

REDUCED = ("-O2",)  # as users run it; the runner adds -DSAFETY
FULL = ("-O2", "-DNOREDUCE")
TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class System:
    """A model of ours, and perhaps the same in Promela by hand; with a property, only that is checked."""

    name: str
    model: str
    by_hand: str | None
    full: dict[str, int]
    quick: dict[str, int] | None  # None: not in a quick run
    property: str | None = None


def _system(name: str, full: dict[str, int], quick: dict[str, int]) -> System:
    folder = "bench/models/reduction"
    return System(name, f"{folder}/{name}.net", f"{folder}/{name}.pml", full, quick)


SYSTEMS = (
    _system("philosophers", {"N": 9}, {"N": 7}),
    _system("leader", {"N": 7}, {"N": 5}),
    _system("token_ring", {"N": 10}, {"N": 7}),
    _system("kafka", {"RECORDS": 2}, {"RECORDS": 1}),
    System("kafka_paper", "models/kafka/kafka.csp", None, {}, None, "System() deadlockfree"),
)


@dataclass(frozen=True)
class Search:
    """The states and transitions of one search, and its seconds."""

    states: int
    transitions: int
    seconds: float


@dataclass(frozen=True)
class Pair:
    """A full search and a reduced one; without a reduced one, the tool cannot reduce."""

    who: str
    full: Search
    reduced: Search | None

    @property
    def stored(self) -> int:
        """The states that a user of the tool stores."""
        return (self.reduced or self.full).states

    def row(self) -> list[str]:
        """Formats the pair as a table row."""
        less = self.reduced
        return [
            self.who,
            f"{self.full.states:,}",
            "not built" if less is None else f"{less.states:,}",
            f"{self.full.states / self.stored:.2f}",
            f"{self.full.transitions:,}",
            "" if less is None else f"{less.transitions:,}",
            f"{self.full.seconds:.2f}",
            "" if less is None else f"{less.seconds:.2f}",
        ]


HEAD = ("who", "states", "reduced", "times fewer", "transitions", "reduced", "seconds", "reduced")


@dataclass(frozen=True)
class Measured:
    """All searches of one system."""

    system: str
    ours: Pair
    exported: Pair
    by_hand: Pair | None = field(default=None)

    def ratios(self) -> dict[str, float]:
        """Returns SPIN's stored states divided by ours."""
        found = {f"{self.system}_exported": self.exported.stored / self.ours.stored}
        if self.by_hand is not None:
            found[f"{self.system}_by_hand"] = self.by_hand.stored / self.ours.stored
        return found


def measure_ours(code: Code, system: System, constants: dict[str, int]) -> Pair:
    """Checks our model in full and, if this commit can, with reduction."""
    words = [word for name, value in constants.items() for word in ("-D", f"{name}={value}")]
    words += [] if system.property is None else ["-p", system.property]
    path = ROOT / system.model
    if not code.can_reduce():
        return Pair("veristream", check_once(code, path, words), None)
    full = check_once(code, path, [*words, "--no-reduction"])
    return Pair("veristream", full, check_once(code, path, words))


def check_once(code: Code, path: Path, words: list[str]) -> Search:
    """Checks the model once; all its properties must hold, so that the search is whole."""
    results = code.check(path, *words).results()
    wrong = [f"{one['property']} is {one['verdict']}" for one in results if one["verdict"] != "holds"]
    if wrong:
        raise SystemExit(f"{path.name}: {', '.join(wrong)}")
    largest = max(results, key=lambda one: int(one["states"]))
    return Search(int(largest["states"]), int(largest["transitions"]), float(largest["seconds"]))


def measure_spin(who: str, text: str) -> Pair:
    """Searches a Promela model in full and with reduction."""
    full, reduced = (
        search_of(run_spin(text, deadlocks=True, timeout_s=TIMEOUT_S, cflags=flags), who)
        for flags in (FULL, REDUCED)
    )
    return Pair(who, full, reduced)


def search_of(run: PeerRun, who: str) -> Search:
    """Returns the counts of a run that found nothing wrong."""
    if run.verdict != "complete" or run.distinct_states is None:
        raise EnvironmentFailure(f"{who}: the search ended as {run.verdict}: {run.output[-2000:]}")
    return Search(run.distinct_states, run.transitions or 0, run.search_seconds)


def exported(system: System, constants: dict[str, int]) -> str:
    """Returns our model in Promela, with the chosen property alone if there is one."""
    network = load(ROOT / system.model, constants)
    if system.property is not None:
        chosen = tuple(one for one in network.properties if one.name == system.property)
        assert chosen, f"{system.model} has no property {system.property}"
        network = replace(network, properties=chosen)
    return to_promela(network)


def written_by_hand(path: Path, constants: dict[str, int]) -> str:
    """Returns a Promela model with constants set in front of it."""
    defines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
    return defines + path.read_text(encoding="utf-8")


def measure(code: Code, system: System, constants: dict[str, int]) -> Measured:
    """Measures one system with all tools."""
    say(f"{system.name} {constants}: ours ...")
    own = measure_ours(code, system, constants)
    say(f"{system.name}: SPIN ...")
    translated = measure_spin("SPIN, exported", exported(system, constants))
    if own.full.states != translated.full.states:
        raise SystemExit(f"{system.name}: we count {own.full.states}, SPIN {translated.full.states}")
    by_hand = None
    if system.by_hand is not None:
        by_hand = measure_spin("SPIN, by hand", written_by_hand(ROOT / system.by_hand, constants))
    found = Measured(system.name, own, translated, by_hand)
    pairs = [pair for pair in (own, translated, by_hand) if pair is not None]
    table(f"{system.name} {constants}", HEAD, [pair.row() for pair in pairs])
    return found


def worst_of(found: list[Measured]) -> dict[str, float]:
    """Returns all ratios, and the worst of each kind."""
    ratios = {name: value for one in found for name, value in one.ratios().items()}
    for kind in ("exported", "by_hand"):
        ratios[f"over_spin_{kind}"] = min(value for name, value in ratios.items() if name.endswith(kind))
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="use smaller systems and leave out the largest"
    )
    quick = parser.parse_args().quick
    found = []
    with workplace() as place:
        code = ours(place)
        for system in SYSTEMS:
            constants = system.quick if quick else system.full
            if constants is not None:
                found.append(measure(code, system, constants))
    ratios = worst_of(found)
    table(
        "SPIN's states over ours, both reduced",
        ("system", "ratio"),
        [[n, f"{r:.2f}"] for n, r in ratios.items()],
    )
    if any(one.ours.reduced is None for one in found):
        say("  this commit has no reduction: our states are all states")
    finish("reduction", ratios, {"systems": {one.system: asdict(one) for one in found}, "quick": quick})


if __name__ == "__main__":
    main()
