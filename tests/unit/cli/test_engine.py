"""Which engine a command chooses, and what it reports about it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run
from veristream import spark
from veristream.cli.choices import Engine, read_spark
from veristream.cli.notices import THINGS_MAX, telling
from veristream.cluster import names_cluster
from veristream.search.limits import SparkOptions

SETTINGS = (
    "MASTER",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_HOME",
    "SPARK_REMOTE",
)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes all settings of Spark that name a cluster."""
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYSPARK_GATEWAY_PORT", "45123"),
        ("SPARK_REMOTE", "sc://host:15002"),
        ("MASTER", "spark://host:7077"),
        ("MASTER", "yarn"),
        ("MASTER", "local[4]"),
        ("PYSPARK_SUBMIT_ARGS", "--master yarn pyspark-shell"),
        ("PYSPARK_SUBMIT_ARGS", "--conf spark.master=yarn pyspark-shell"),
    ],
)
def test_settings_that_name_a_cluster(name: str, value: str) -> None:
    assert names_cluster({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/bin"),
        ("SPARK_REMOTE", ""),
        ("MASTER", "bedroom"),
        ("PYSPARK_SUBMIT_ARGS", "--conf spark.executor.cores=4 pyspark-shell"),
        ("SPARK_CONF_DIR", "/nowhere"),
    ],
)
def test_settings_that_name_none(name: str, value: str) -> None:
    assert not names_cluster({name: value})


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("spark.master  yarn", True),
        ("spark.master=yarn", True),
        ("# spark.master yarn", False),
        ("", False),
    ],
)
def test_defaults_of_spark(tmp_path: Path, line: str, found: bool) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(f"spark.ui.enabled false\n{line}\n")
    assert names_cluster({"SPARK_HOME": str(tmp_path)}) is found
    assert names_cluster({"SPARK_CONF_DIR": str(tmp_path / "conf")}) is found


def test_auto_stays_here_where_no_cluster_is_named() -> None:
    assert read_spark(Engine.AUTO, SparkOptions()) is None


def test_auto_hands_over_where_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    named = SparkOptions("yarn", 4)
    assert read_spark(Engine.AUTO, named) == replace(named, start_states=None)
    monkeypatch.setenv("MASTER", "yarn")
    spilled = SparkOptions(spill="/disk")
    assert read_spark(Engine.AUTO, spilled) == replace(spilled, start_states=None)
    assert read_spark(Engine.LOCAL, SparkOptions()) is None


def test_spark_begins_to_share_early() -> None:
    assert read_spark(Engine.SPARK, SparkOptions()) == SparkOptions(start_states=200_000)


def test_a_folder_without_a_checkpoint_is_told(run: Run, counter: Path, tmp_path: Path) -> None:
    done = run("check", counter, "--engine", "spark", "--resume", tmp_path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: there is no checkpoint in {tmp_path}\nhint: name the folder")


@pytest.mark.parametrize("verb", ["check", "reproduce"])
@pytest.mark.parametrize("engine", ["auto", "local"])
@pytest.mark.parametrize("option", ["--parts", "--spill"])
def test_options_of_spark_alone(run: Run, verb: str, engine: str, option: str, counter: Path) -> None:
    done = run(verb, counter, "--engine", engine, option, 2)
    assert (done.exit_code, done.stdout) == (2, "")
    assert (
        done.stderr
        == f"error: {option} needs Spark\nhint: add --engine spark --master URL, or leave the option out\n"
    )


def test_an_unused_cluster_is_never_opened(
    run: Run, counter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(master: str | None, name: str) -> None:
        raise AssertionError("no session is needed")

    monkeypatch.setattr(spark, "open_session", refuse)
    here = json.loads(run("check", counter, "--json").stdout)
    done = run("check", counter, "--json", "--master", "spark://127.0.0.1:1")
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert document["engine"] == "local"
    keys = ("property", "verdict", "states", "transitions", "trace")
    assert [[one[key] for key in keys] for one in document["results"]] == [
        [one[key] for key in keys] for one in here["results"]
    ]


def test_what_is_told_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    with telling() as tell:
        for thing in ("a", "b", "a"):
            tell("checked by the driver alone", thing)
        for number in range(THINGS_MAX + 2):
            tell("many", str(number))
        assert capsys.readouterr().err == ""
    assert capsys.readouterr() == (
        "",
        f"checked by the driver alone: a, b\nmany: {', '.join(map(str, range(THINGS_MAX)))} and 2 more\n",
    )


def test_settings_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not names_cluster(os.environ)
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    assert names_cluster(os.environ)
