"""What the tests of the audit share: the session on this machine that all tests on Spark use."""

from __future__ import annotations

from tests.spark.conftest import java, session

__all__ = ["java", "session"]
