"""Audits of whole histories: what a task does, on this machine or on Spark, and how it all adds up."""
