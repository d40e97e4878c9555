"""The coordinator's own rotations and samplers under simulated time, before a simulated store.

Called by people (`python -m tfquiver.service.sim.main`), tests and benchmarks. Pure but for `main`; never has rules of
its own, except the baseline `lru`.
"""
