"""Seeded simulations of Kabis in one process, with faults and checks."""
