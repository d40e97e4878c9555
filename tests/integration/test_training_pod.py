"""As in a pod: a trainer of another user, in the nodes' reader group, reads a data set by its name through a node whose
directory it sees read-only. The node is its user's, and what it keeps is nobody else's."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import records, warm
from tests.support.cluster import Server, tensorflow_env, wait_until
from tests.support.privileges import needs_mounts
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2, named_datasets_pb2_grpc

pytestmark = [needs_mounts, pytest.mark.skipif(not shutil.which("unshare"), reason="apt-get install util-linux")]
NODE_USER, GROUP, TRAINER = 10001, 10001, 1234
READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
# Python itself may be where other users do not look: what is needed is imported before becoming one.
NODE = f"""
import os, sys
from tfquiver.service.node import main
import tfquiver.service.node.node, tfquiver.scanning.scan_pool, encodings.idna, multiprocessing
os.setgroups([{GROUP}]); os.setresgid({GROUP}, {GROUP}, {GROUP}); os.setresuid(*[{NODE_USER}] * 3)
sys.argv = ["node", *sys.argv[1:]]
main.run()
"""
TRAIN = f"""
import os, sys
import tfquiver
from tfquiver.ops.compiling_and_loading import loader
import tfquiver.tensorflow_client.quiver_dataset, tfquiver.data_sources_found_and_registered.named
loader.load()
os.setgroups([{GROUP}]); os.setresgid(*[{TRAINER}] * 3); os.setresuid(*[{TRAINER}] * 3)
data = tfquiver.dataset("team.train", service=sys.argv[1], cache_dir=sys.argv[2], job="sweep", batch_size=64)
print(sum(len(batch) for batch in data.as_numpy_iterator()))
try:
    open(os.path.join(sys.argv[2], "mine"), "w")
except OSError:
    print("nothing is written there")
"""


@pytest.fixture
def root() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="tfquiver-pod-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.long
def test_a_training_pod_reads_by_name(root: Path) -> None:
    rng = random.Random(3)
    (root / "train-0").write_bytes(records.stream([rng.randbytes(500) for _ in range(1000)]))
    (root / "train-0").chmod(0o644)
    cache = root / "cache"
    cache.mkdir(mode=0o700)
    shutil.chown(cache, NODE_USER, GROUP)  # what the init container does
    arguments = ["--port=0", f"--work_dir={root / 'work'}"]
    coordinator = Server("tfquiver.service.coordinator.main", arguments, root / "coordinator.log").start()
    flags = [f"--cache_dir={cache}", "--quota=16MiB", f"--coordinator={coordinator.address}", f"--reader_group={GROUP}"]
    with (root / "node.log").open("wb") as log:
        node = warm.Popen([sys.executable, "-c", NODE, *flags], stdout=subprocess.PIPE, stderr=log)
    try:
        assert node.stdout
        assert json.loads(node.stdout.readline())["node_id"], (root / "node.log").read_text()
        with rpc.channel(coordinator.address) as channel:
            stub = named_datasets_pb2_grpc.NamedDatasetsStub(channel)
            stub.Create(named_datasets_pb2.DatasetSpec(name="team.train", sources=[str(root / "train-*")]), timeout=20)
            asked = named_datasets_pb2.GetNamedDatasetRequest(name="team.train")
            wait_until(lambda: stub.Get(asked, timeout=20).version > 0, "it is scanned", 60.0)
        train = [sys.executable, "-c", TRAIN, coordinator.address, str(cache)]
        command = ["unshare", "--mount", "sh", "-c", READ_ONLY, str(cache), *train]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=tensorflow_env())
        assert done.stdout.split("\n")[:2] == ["1000", "nothing is written there"], done.stderr[-4000:]
    finally:
        node.terminate()
        ended = node.wait(30)
        node.stdout.close()  # type: ignore[union-attr]
        coordinator.stop()
    assert ended == 0, (root / "node.log").read_text()
