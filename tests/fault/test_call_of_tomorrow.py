"""A call that the other side does not have yet: both versions are named."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfquiver
from tests.support import earlier
from tests.support.cluster import Server
from tfquiver.cli import calls
from tfquiver.grpc_plumbing import rpc
from tfquiver.version import VERSION

pytestmark = pytest.mark.long


def test_both_versions_are_named_where_one_lacks_what_the_other_asks_for(tmp_path: Path) -> None:
    """Today's code as if it were tomorrow's, that asks for what there will be."""
    code = earlier.unpacked("HEAD", tmp_path / "code")
    version = code / "tfquiver" / "version.py"
    version.write_text(version.read_text().replace(VERSION, "7.8.9"))
    flags = ["--port=0", f"--work_dir={tmp_path / 'work'}"]
    log = tmp_path / "coordinator.log"
    server = Server("tfquiver.service.coordinator.main", flags, log, earlier.environment(code)).start()
    try:
        with rpc.channel(server.address) as channel:
            call = channel.unary_unary("/tfquiver.v1.Coordinator/OfTomorrow")
            with pytest.raises(tfquiver.errors.TfquiverError) as caught:
                calls.ask(call, b"", "", "coordinator c")
    finally:
        server.kill()
    assert str(caught.value) == (
        "coordinator c: tfquiver 7.8.9, which answers here, has no call /tfquiver.v1.Coordinator/OfTomorrow; this is "
        f"tfquiver {VERSION}: upgrade the older of the two (`tfquiver doctor` says what runs where)"
    )
