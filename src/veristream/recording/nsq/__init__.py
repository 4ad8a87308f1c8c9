"""Recording NSQ: clients that write journals, a workload with faults, and scenarios with known outcomes."""
