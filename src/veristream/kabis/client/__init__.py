"""Producers, consumers and administrators."""
