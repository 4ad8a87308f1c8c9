"""Downloading Java programs: what Maven is asked for, and how its result is verified."""

from __future__ import annotations

import stat
from hashlib import sha256
from pathlib import Path

import pytest

from veristream.brokers.kafka import KAFKA_VERSION, KAFKAS, find_program
from veristream.brokers.maven import Artifact, Bundle, check, read_pins, resolve, write_pom
from veristream.errors import EnvironmentFailure, ModelError

BUNDLE = Bundle("kafka-4.1.1", (Artifact("a.b", "c", "1"),), "kafka.sha256")


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "one.jar").write_bytes(b"one")
    (folder / "two.jar").write_bytes(b"two")
    return folder


PINS = {"one.jar": sha256(b"one").hexdigest(), "two.jar": sha256(b"two").hexdigest()}


def test_the_pinned_files_are_good(jars: Path) -> None:
    check(jars, PINS)


def test_a_changed_file_is_named(jars: Path) -> None:
    (jars / "two.jar").write_bytes(b"tow")
    with pytest.raises(EnvironmentFailure, match=r"two\.jar has the wrong checksum"):
        check(jars, PINS)


def test_a_file_too_many_is_named(jars: Path) -> None:
    (jars / "three.jar").write_bytes(b"three")
    with pytest.raises(EnvironmentFailure, match=r"three\.jar is not pinned"):
        check(jars, PINS)


def test_a_file_too_few_is_named(jars: Path) -> None:
    (jars / "one.jar").unlink()
    with pytest.raises(EnvironmentFailure, match=r"one\.jar is missing"):
        check(jars, PINS)


@pytest.mark.parametrize(("version", "count"), [(KAFKA_VERSION, 46), ("3.9.1", 57), ("3.5.2", 45)])
def test_kafka_is_pinned_whole(version: str, count: int) -> None:
    bundle = KAFKAS[version]
    pins = read_pins(bundle.pins)
    assert {f"{each.name}-{each.version}.jar" for each in bundle.artifacts} <= pins.keys()
    assert f"kafka_2.13-{version}.jar" in pins
    assert len(pins) == count
    assert all(len(digest) == 64 for digest in pins.values())


def test_a_version_that_nobody_pinned_is_refused() -> None:
    with pytest.raises(ModelError) as wrong:
        find_program("3.9.2")
    assert wrong.value.render() == ("error: no Kafka 3.9.2 is pinned\nhint: choose 4.1.1, 3.9.1, 3.5.2")


def test_the_project_names_what_is_wanted() -> None:
    assert "<groupId>a.b</groupId><artifactId>c</artifactId><version>1</version>" in write_pom(BUNDLE)


def test_without_maven_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="`mvn` is not on the PATH") as caught:
        resolve(BUNDLE)
    assert "install Maven" in caught.value.hint


def test_what_maven_says_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Maven fails, it leaves nothing behind, so that the next attempt starts from scratch."""
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] no such artifact'\nexit 1\n", encoding="utf-8")
    maven.chmod(maven.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(EnvironmentFailure, match="no such artifact"):
        resolve(BUNDLE)
    assert list((tmp_path / "cache").iterdir()) == []
