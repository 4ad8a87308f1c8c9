"""A driver that copies a topic to another until it is killed: `python -m ... DATA FROM TO CHECKPOINT`."""

from __future__ import annotations

import sys

from veristream.kabis.spark import register
from veristream.spark import open_session

if __name__ == "__main__":
    data, source, target, checkpoint = sys.argv[1:]
    spark = open_session("local[1]", "copying")
    register(spark)
    orders = (
        spark.readStream.format("kabis")
        .option("cluster", data)
        .option("topics", source)
        .option("maxRowsPerTrigger", 20)
        .load()
    )
    query = (
        orders.select("partition", "key", "value")
        .writeStream.format("kabis")
        .option("cluster", data)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    query.awaitTermination()
