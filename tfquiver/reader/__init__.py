"""Readers without TensorFlow: batches of records as buffers, for NumPy, PyTorch and whatever takes memory.

Called by users (`tfquiver.reader.records`) and by `tfquiver.torch` and `tfquiver.grain`. Never imports TensorFlow, nor
what reads with it. The work is done by the same C++ core as the op's, in `libtfquiver_reader.so`, without the
interpreter's lock.
"""

from __future__ import annotations

from tfquiver.reader.batch import Batch
from tfquiver.reader.epoch import Epoch
from tfquiver.reader.example import parse_example
from tfquiver.reader.records import Records, records

__all__ = ["Batch", "Epoch", "Records", "parse_example", "records"]
