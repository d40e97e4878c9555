"""A node that is asked for a part of another one's scan: it does what its own orders say, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import numbered
from tests.support.aio import on_loop
from tests.support.scanning_nodes import TERMS, Node, task
from tfquiver import errors
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing import listing
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.dataset_scans.helping import Helping
from tfquiver.service.node.reading_the_object_store.named_access import NamedAccess

FILES = 12


@pytest.fixture
def files(tmp_path: Path) -> list[FileEntry]:
    numbered.write(tmp_path / "data", FILES, 60, 20_000)
    return listing.expand(str(tmp_path / "data" / "part-*"))


@pytest.mark.parametrize(
    ("ordered", "asked", "error", "says"),
    [
        ({}, {"task_id": "t/2"}, errors.UnavailableError, "task_id"),
        ({"node_id": "another"}, {}, errors.UnavailableError, "'t/1' of node 'host'"),
        ({"sources": ["/elsewhere/part-*"]}, {}, errors.InvalidArgumentError, r"files\[0\].uri"),
        *(
            (
                {"sources": [source]},
                {"files": [types_pb2.FileInfo(uri=uri, generation="1")]},
                errors.InvalidArgumentError,
                r"files\[0\].uri",
            )
            for source, uri in [("SAME/*", "SAME-2/part-1"), ("SAME", "SAME-2/part-1"), ("SAME/part-1", "SAME/part-10")]
        ),
        ({"format": types_pb2.DATASET_FORMAT_BYTES}, {}, errors.StaleDigestError, "terms"),
        ({}, {"files": []}, errors.InvalidArgumentError, "files"),
        (
            {},
            {"files": [types_pb2.FileInfo(uri="SAME/part-1", size_bytes=1 << 63, generation="1")] * 2},
            errors.InvalidArgumentError,
            "18.4 EB",
        ),
        (
            {},
            {"files": [types_pb2.FileInfo(uri="gs://b/x", generation="1")] * 1025},
            errors.InvalidArgumentError,
            "files",
        ),
        ({}, {"files": [types_pb2.FileInfo(uri="SAME/../part-1", generation="1")]}, errors.InvalidArgumentError, "uri"),
        ({}, {"files": [types_pb2.FileInfo(uri="SAME/part-1")]}, errors.InvalidArgumentError, "generation"),
    ],
)
@on_loop
async def test_a_node_helps_with_what_its_own_orders_say(
    ordered: dict[str, Any],
    asked: dict[str, Any],
    error: type[errors.TfquiverError],
    says: str,
    files: list[FileEntry],
    tmp_path: Path,
) -> None:
    other = Node(tmp_path, "peer")
    helping = Helping(other.scanner, NamedAccess(), orders_s=0.2)
    here = str(Path(files[0].uri.removeprefix("file://")).parent)
    if "sources" in ordered:
        ordered = ordered | {"sources": [source.replace("SAME", here) for source in ordered["sources"]]}
    helping.ordered([task(files, **ordered)])
    one = types_pb2.FileInfo(uri=files[0].uri, size_bytes=files[0].size_bytes, generation=files[0].generation)
    request = pb.ScanFilesRequest(task_id="t/1", node_id="host", terms=TERMS.message(), files=[one])
    for field, value in asked.items():
        request.ClearField(field)  # type: ignore[arg-type]
        request.MergeFrom(pb.ScanFilesRequest(**{field: value}))
    for file in request.files:
        file.uri = file.uri.replace("SAME", f"file://{here}")
    with pytest.raises(errors.TfquiverError, match=says) as raised:
        async for _ in helping.scan(request):
            pass
    assert raised.value.code == error.code
    assert not helping.busy
    await other.scanner.close()


@on_loop
async def test_a_source_behind_a_symbolic_link_is_what_the_disk_says(files: list[FileEntry], tmp_path: Path) -> None:
    """`..` behind it is above where it leads, as for who has listed the files."""
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "link").symlink_to(tmp_path / "data")
    source = str(tmp_path / "away" / "link" / ".." / "data" / "part-*")
    listed = listing.expand(source)
    assert [one.uri for one in listed] == [one.uri for one in files]
    other = Node(tmp_path, "peer")
    helping = Helping(other.scanner, NamedAccess())
    helping.ordered([task(files, sources=[source])])
    asked = [types_pb2.FileInfo(uri=one.uri, size_bytes=one.size_bytes, generation=one.generation) for one in listed]
    request = pb.ScanFilesRequest(task_id="t/1", node_id="host", terms=TERMS.message(), files=asked)
    found = {table.file async for reply in helping.scan(request) for table in reply.tables}
    assert found == set(range(FILES))
    await other.scanner.close()
