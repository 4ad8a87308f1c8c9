"""Trials: real brokers under chosen settings and faults, beside what models say of the same settings."""
