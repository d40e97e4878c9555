"""Benchmarks: programs, each with its bars."""

import os

# As in tests/conftest.py: children are started by fork and exec while calls are under way.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
