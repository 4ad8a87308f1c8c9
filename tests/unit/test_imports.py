"""The import contracts: each one breaks when a module imports what it must not, a new module included."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PLANTED = {
    "layers go one way": ("ir/planted.py", "veristream.search.limits"),
    "there are no import cycles": (
        "languages/timed/lower/constant.py",
        "veristream.languages.timed.lower.programs.precompute",
    ),
    "search: engines, then explorations, then what they share": (
        "search/reach/planted.py",
        "veristream.search.engine",
    ),
    "the product does not know its test package": ("ir/planted_peers.py", "veristream_testing.peers"),
    "the two checkers of histories do not know each other": (
        "history/checks/planted.py",
        "veristream.history.oracle.judge",
    ),
    "polars and duckdb are peers": ("history/planted_polars.py", "polars"),
    "llvmlite has its owners": ("search/planted_llvmlite.py", "llvmlite"),
    "numba has its owners": ("report/planted_numba.py", "numba"),
    "lark has its owners": ("languages/csp/lower/planted_lark.py", "lark"),
    "tree-sitter has its owners": ("languages/csp/read/planted_tree_sitter.py", "tree_sitter"),
    "typer has its owners": ("report/planted_typer.py", "typer"),
    "rich has its owners": ("report/planted_rich.py", "rich.console"),
    "pyspark has its owners": ("cli/planted_pyspark.py", "pyspark.sql"),
    "pyarrow has its owners": ("report/planted_pyarrow.py", "pyarrow"),
    "confluent_kafka has its owners": ("kabis/storage/planted_kafka.py", "confluent_kafka"),
    "pika has its owners": ("brokers/planted_pika.py", "pika"),
    "nacl has its owners": ("kabis/ordering/planted_nacl.py", "nacl.signing"),
    "kabis stands on its own": ("kabis/planted.py", "veristream.ir.network"),
    "kabis: from what is signed up to clusters": (
        "kabis/wire/planted.py",
        "veristream.kabis.client.errors",
    ),
    "kabis: only connect knows the implementations of the channels": (
        "kabis/client/fetching.py",
        "veristream.kabis.storage.client",
    ),
    "kabis.client: producers, consumers and what they share": (
        "kabis/client/kafka/planted.py",
        "veristream.kabis.client.producer.core",
    ),
    "kabis.protocol: what is signed": ("kabis/protocol/merkle.py", "veristream.kabis.protocol.keys"),
    "kabis.ledger: what is decided": ("kabis/ledger/groups.py", "veristream.kabis.ledger.rules"),
}
"""For each contract, a module under src/veristream and an import that it must not have."""


def lint(root: Path) -> tuple[int, set[str]]:
    """Runs import-linter as `make check` does; returns its exit status and the broken contracts."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    environment = {
        "PYTHONPATH": f"{root / 'src'}:{root / 'testing'}",
        "NO_COLOR": "1",
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    return done.returncode, set(re.findall(r"^(.+?) BROKEN\b", done.stdout, re.MULTILINE))


def test_every_contract_breaks_for_a_planted_import(tmp_path: Path) -> None:
    for name in ("src", "testing"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    assert {contract["name"] for contract in contracts["contracts"]} == set(PLANTED)
    assert lint(tmp_path) == (0, set())
    for name, imported in PLANTED.values():
        with (tmp_path / "src/veristream" / name).open("a", encoding="utf-8") as file:
            file.write(f"\nimport {imported}\n")
    assert lint(tmp_path) == (1, set(PLANTED))
