"""What the public functions raise is ours, and TensorFlow's class of the same code where TensorFlow is imported."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

import tfquiver
from tfquiver import errors
from tfquiver.tensorflow_client.tf_errors import both


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (errors.InvalidArgumentError, tf.errors.InvalidArgumentError),
        (errors.PermissionError_, tf.errors.PermissionDeniedError),
        (errors.CorruptDigestError, tf.errors.DataLossError),
        (errors.StaleDigestError, tf.errors.FailedPreconditionError),
        (errors.NeverFitsError, tf.errors.ResourceExhaustedError),
        (errors.TfquiverError, tf.errors.InternalError),
    ],
)
def test_an_error_is_of_both_classes(ours: type[errors.TfquiverError], theirs: type[Exception]) -> None:
    made = both(ours("the file of that name"))
    for error in (made, pickle.loads(pickle.dumps(made))):
        assert isinstance(error, ours) and isinstance(error, theirs)
        assert str(error) == "the file of that name" == error.message  # type: ignore[attr-defined]
        assert type(error).__name__ == ours.__name__
    assert both(made) is made


def test_every_error_has_a_class_of_tensorflow() -> None:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.TfquiverError):
            assert isinstance(both(kind("said")), tf.errors.OpError)


def test_the_public_functions_raise_both(tmp_path: Path) -> None:
    for caught in (errors.NotFoundError, tf.errors.NotFoundError):
        with pytest.raises(caught, match=r"no match for .*train-"):
            tfquiver.dataset(str(tmp_path / "train-*"), cache_dir=tmp_path / "cache")
    with pytest.raises(tf.errors.InvalidArgumentError, match="dispatcher='nonsense'") as raised:
        tfquiver.distribute("nonsense")
    assert any(entry.name == "distribute" for entry in raised.traceback)


def test_who_has_not_imported_tensorflow_gets_ours_alone() -> None:
    code = """
import sys, tfquiver
from tfquiver import errors
try:
    tfquiver.dataset("x")
except errors.InvalidArgumentError as error:
    assert type(error) is errors.InvalidArgumentError
assert "tensorflow" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
