"""Fixtures of the tests on Spark: one session on this machine, and one small cluster.

Without Java or PySpark the tests are skipped with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.missing import is_missing
from tests.spark.cluster import Standalone, standalone
from veristream.errors import EnvironmentFailure
from veristream.search.shared import handover
from veristream.spark import find_java, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[2]"


@pytest.fixture(scope="session")
def java() -> Path:
    """The home of a Java version that Spark supports."""
    try:
        import pyspark  # noqa: F401

        return find_java()
    except EnvironmentFailure as missing:
        is_missing(missing.render())
    except ImportError as missing:
        is_missing(str(missing))


@pytest.fixture(scope="session")
def session(java: Path) -> Iterator[SparkSession]:
    """A session on two cores of this machine."""
    opened = open_session(LOCAL, "veristream tests")
    yield opened
    opened.stop()


@pytest.fixture(scope="session")
def cluster(java: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """One master and two workers with a core each, on loopback."""
    with standalone(java, tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hands over even the smallest state space, at its first level."""
    monkeypatch.setattr(handover, "WIDE", 1)
