"""Ordering by CometBFT: its nodes order transactions, and our ledger is their ABCI application."""
