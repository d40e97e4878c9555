"""What several of these tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.worker_forks import WorkerForks


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerForks]:
    """One import of TensorFlow for all dispatchers and workers of a file of tests."""
    with WorkerForks(tmp_path_factory.mktemp("forks") / "forks.log") as running:
        yield running
