"""What the tests of `format("kabis")` share: a Spark session, and a cluster with a party that lies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.kabis.spark.lake import LIAR, Lake
from tests.spark.conftest import java, session  # noqa: F401
from veristream.kabis.cluster.cluster import Cluster, StartOptions
from veristream.kabis.cluster.folder import ClusterFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def lake(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:  # noqa: F811
    """A cluster of seven processes, one of which changes every event that it gives back."""
    from veristream.kabis.spark import register

    register(session)
    folder = ClusterFolder(tmp_path_factory.mktemp("kabis") / "cluster")
    with Cluster(folder) as cluster:
        cluster.create()
        cluster.start(StartOptions(faults={LIAR: "alter"}))
        yield Lake(session, folder)
