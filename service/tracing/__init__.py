"""Traces for OpenTelemetry: who collects them, and how many are made.

Called by servers' `main`. Imports OpenTelemetry when traces are asked for and not before; never waits for a collector:
what it does not take in time is dropped.
"""
