"""Proxies on loopback between clients and brokers, which decide about every piece that passes."""
