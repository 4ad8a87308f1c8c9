"""Histories as folders of Parquet files, in buckets by stream and partition."""
