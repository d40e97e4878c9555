"""A file of weights of version 1 reads as it did, and is written as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tfquiver.messages_and_binary_formats.record_weights import checked_values, opened, record_weights

FILE = Path(__file__).parent / "weights_v1.tfqw"
WEIGHTS = [1.0, 0.0, 0.5, 3.25, 1e-30]
ROOT = bytes(range(32))


def test_it_reads_as_it_did() -> None:
    weights = opened(FILE)
    assert weights.values.tolist() == np.array(WEIGHTS, np.float32).tolist()
    assert weights.content_root == ROOT
    assert weights.weights_id.hex() == "79519c7d8ce2bb3ff8242fa03d018852d9b0628b48fd1dc2c428b3a9ea3125f7"


def test_every_byte_is_written_as_it_was() -> None:
    assert record_weights(ROOT, checked_values("weights", WEIGHTS)).to_bytes() == FILE.read_bytes()
