"""The Spark data source `kabis`.

from veristream.kabis.spark.source import register

register(spark)
orders = spark.read.format("kabis").option("cluster", "kabis-data").option("topics", "orders").load()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.spark.options import (
    BATCH_READ,
    BATCH_WRITE,
    STREAM_READ,
    STREAM_WRITE,
    read_options,
    write_options,
)
from veristream.kabis.spark.shown import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("index", LongType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField(
            "headers",
            ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        ),
        StructField("timestamp", TimestampType()),
        StructField("block_time", TimestampType()),
        StructField("height", LongType()),
        StructField("producer", StringType()),
        StructField("guarantee", StringType()),
    ]
)
"""The columns of a read; `rows` explains them."""


def register(spark: SparkSession) -> None:
    """Registers `format("kabis")` with a session."""
    spark.dataSource.register(KabisSource)


class KabisSource(DataSource):
    """Topics as tables."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return "kabis"

    def schema(self) -> StructType:
        """The columns, the same for all topics."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        from veristream.kabis.spark.reader import KabisReader

        with shown():
            _require_schema(schema)
            return KabisReader(read_options(self.options, BATCH_READ))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """For `spark.readStream`."""
        with shown():
            try:
                from veristream.kabis.spark.stream import KabisStreamReader
            except ImportError as error:
                raise EnvironmentFailure(
                    f"this version of PySpark does not support the streaming API that Kabis needs: {error}",
                    "install PySpark 4.2 or newer",
                ) from error
            _require_schema(schema)
            return KabisStreamReader(read_options(self.options, STREAM_READ))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `DataFrame.write`."""
        from veristream.kabis.spark.writer import KabisWriter

        with shown():
            _require_append(overwrite)
            return KabisWriter(write_options(self.options, BATCH_WRITE), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """For `DataFrame.writeStream`."""
        from veristream.kabis.spark.writer import KabisStreamWriter

        with shown():
            _require_append(overwrite)
            return KabisStreamWriter(write_options(self.options, STREAM_WRITE), schema)


def _require_schema(schema: StructType) -> None:
    if schema != SCHEMA:
        raise ModelError("the columns of kabis are fixed", hint="omit .schema(...) and use select")


def _require_append(overwrite: bool) -> None:
    if overwrite:
        raise ModelError("a topic cannot be overwritten", hint="write with mode append")
