"""What a data set's files are to tfquiver: runs of TFRecords, or any bytes (pure)."""

from __future__ import annotations

TFRECORD = "tfrecord"  # shards end with records, and are read by `tfquiver.dataset`, too
BYTES = "bytes"  # shards are cut wherever the content says, and are read as files only
FORMATS = (TFRECORD, BYTES)
NOTHING = "there is nothing to read in it: its files are empty"
