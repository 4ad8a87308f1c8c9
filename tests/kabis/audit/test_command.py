"""The command before Spark starts: its help, and what is wrong at once."""

from __future__ import annotations

import json
from pathlib import Path

from bench._audit import Plan, write_chain
from tests.kabis.session.console import Console
from veristream.kabis.audit.findings import Kind


def test_the_help_names_every_kind_and_every_exit_code(tmp_path: Path) -> None:
    told = Console(tmp_path).do("audit", "--help").output
    assert [kind for kind in Kind if kind not in told] == []
    assert "Exit code: 0 if at most phantoms were found, 1 if there is a fault" in told


def test_a_folder_without_a_cluster(tmp_path: Path) -> None:
    for words in ((), ("--files",)):
        ended = Console(tmp_path / "nothing")("audit", *words)
        assert (ended.code, ended.output) == (2, "")
        assert ended.told.startswith(f"error: there is no cluster in {tmp_path / 'nothing'}\nhint: ")


def test_a_cluster_that_is_down_is_not_waited_for(tmp_path: Path) -> None:
    write_chain(tmp_path, Plan(batches=20, batch_events=1, faults=0))
    ended = Console(tmp_path)("audit")
    assert (ended.code, ended.output) == (3, "")
    assert ended.told.startswith(f"error: the cluster in {tmp_path} is down\nhint: ")


def test_a_page_that_could_not_be_written_is_told_first(tmp_path: Path) -> None:
    ended = Console(tmp_path)("audit", "--html", tmp_path / "nowhere" / "page.html")
    assert (ended.code, ended.output) == (2, "")
    assert ended.told == (
        f"error: the folder of {tmp_path / 'nowhere' / 'page.html'} does not exist\n"
        "hint: --html needs a file to write\n"
    )


def test_files_are_not_looked_for_where_the_parties_have_none(tmp_path: Path) -> None:
    write_chain(tmp_path, Plan(batches=20, batch_events=1, faults=0))
    hint = "hint: omit --files to read from the parties, which must run (veristream kabis up)\n"
    missing = f"error: {tmp_path} does not contain all files: "
    for party in ("storage-1", "storage-3"):
        (tmp_path / party / "kafka.properties").write_text("bootstrap.servers=127.0.0.1:1\n")
    ended = Console(tmp_path)("audit", "--files")
    assert (ended.code, ended.output) == (2, "")
    kafka = "the logs of storage-1, storage-3 are in Kafka"
    assert ended.told == f"{missing}{kafka}\n{hint}"

    path = tmp_path / "genesis.json"
    genesis = json.loads(path.read_text())
    for number, validator in enumerate(genesis["validators"]):
        validator["address"] = f"http://127.0.0.1:{number + 1}"
    path.write_text(json.dumps(genesis))
    ended = Console(tmp_path)("audit", "--files")
    assert (ended.code, ended.output) == (2, "")
    assert ended.told == f"{missing}{kafka}, and CometBFT has the blocks\n{hint}"
