"""Producers: events in, receipts out."""
