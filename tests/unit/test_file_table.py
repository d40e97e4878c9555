"""Files of a digest that are objects only when somebody asks: what they are then, and what they take before."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.digests.file_table import FileTable

FILES = 5000
TEXTS = st.text(st.characters(codec="utf-8"), max_size=9)
ENTRIES = st.builds(FileEntry, TEXTS, st.integers(0, 2**64 - 1), TEXTS, st.sampled_from(["none", "gzip", "zlib"]))


@given(st.lists(ENTRIES, max_size=9), st.slices(9))
def test_it_is_a_sequence_of_the_files_that_it_was_made_of(files: list[FileEntry], some: slice) -> None:
    made = FileTable.of(files)
    for table in (made, FileTable(made.data)):
        assert table == files and list(table) == files == [table[at] for at in range(len(table))]
        assert table[some] == files[some]
        assert table.sizes().tolist() == [file.size_bytes for file in files]
        assert table.are_stored_as_they_are() == all(file.compression == "none" for file in files)
        assert table != [*files, FileEntry("more", 1, "")]
    if files:
        assert made[-1] == files[-1]
        with pytest.raises(IndexError):
            made[len(files)]


def test_a_compression_that_nobody_knows_yet_is_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="x: compression 'auto'"):
        FileTable.of([FileEntry("x", 1, "")])


def test_an_open_digest_has_no_objects_for_its_files() -> None:
    """They would be looked at by each collection of garbage, and take three times what is in the file."""
    files = [FileEntry(f"gs://bucket/data/part-{at:07}.tfrecord", 100, str(at), "none") for at in range(FILES)]
    built = Digest.build(
        "d", files, np.zeros((FILES, 32)), np.arange(FILES), np.zeros(FILES), np.full(FILES, 100), np.ones(FILES)
    )
    data = built.to_bytes()
    gc.collect()
    before = len(gc.get_objects())
    tracemalloc.start()
    try:
        digest = Digest.from_bytes(data)
        taken_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(gc.get_objects()) - before < 500
    assert taken_bytes < len(data)
    assert digest.memory_bytes >= taken_bytes - (64 << 10)
    assert digest.shard(FILES - 1).file == files[-1] == built.files[-1]
