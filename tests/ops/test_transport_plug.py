"""TensorFlow's plug for tf.data service's transport is as ops/tf_data_transfer_plugin/data_transfer.h declares it: read
off the library that is installed. By a wrong declaration another function would be called than is meant."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import tensorflow as tf

from tfquiver.ops.compiling_and_loading import loader, tensorflows, transport

pytestmark = pytest.mark.skipif(
    not tensorflows.transport_name(tf.__version__), reason="this TensorFlow has no transport library"
)
CC = Path(tf.__file__).parent / "libtensorflow_cc.so.2"


def said(*command: str | Path) -> str:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.fixture(scope="module")
def symbols() -> dict[str, int]:
    """Demangled name -> address, of the functions and tables of tf.data service. A million others are not demangled."""
    lines = said("sh", "-c", f"nm -Dp --defined-only '{CC}' | grep -F 10tensorflow4data | c++filt").splitlines()
    return {parts[2].split("@@")[0]: int(parts[0], 16) for parts in (line.split(" ", 2) for line in lines)}


def code(tmp_path: Path, symbols: dict[str, int], name: str, size: int) -> str:
    """Its bytes alone are given to objdump, which would read all symbols of the library."""
    at = next(address for symbol, address in symbols.items() if symbol.startswith(name))
    for line in said("readelf", "-lW", CC).splitlines():
        if (words := line.split())[:1] == ["LOAD"]:
            offset, begin, _, size_in_file = (int(word, 16) for word in words[1:5])
            if begin <= at < begin + size_in_file:
                with CC.open("rb") as library:
                    library.seek(at - begin + offset)
                    (tmp_path / "code").write_bytes(library.read(size))
    return said("objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn", tmp_path / "code")


@pytest.mark.long
def test_the_client_has_these_virtual_functions_in_this_order(symbols: dict[str, int]) -> None:
    table = symbols["vtable for tensorflow::data::GrpcDataTransferClient"]
    listed = said("sh", "-c", f"readelf -rW '{CC}' | grep -E '^0*({'|'.join(_slots(table))}) ' | c++filt")
    found = {int(line.split()[0], 16): line for line in listed.splitlines()}
    names = [found[table + 8 * slot] for slot in range(2, 8)]
    wanted = [
        "~GrpcDataTransferClient", "~GrpcDataTransferClient", "::GetElement(", "::TryCancel()",
        "::GetCompatibilityInfo", "::CheckCompatibility",
    ]  # fmt: skip
    assert [want in name for want, name in zip(wanted, names, strict=True)] == [True] * 6, names


def _slots(table: int) -> list[str]:
    return [f"{table + 8 * slot:x}" for slot in range(2, 8)]


def test_the_worker_calls_the_server_at_these_places(symbols: dict[str, int], tmp_path: Path) -> None:
    """Start, Port twice, the compatibility info, the two ways to fall back: slots 2 to 6."""
    text = code(
        tmp_path, symbols, "tensorflow::data::WorkerGrpcDataServer::MaybeStartAlternativeDataTransferServer(", 1100
    )
    assert re.findall(r"call +\*0x([0-9a-f]+)\(%r", text) == ["10", "18", "18", "20", "28", "30"]


def test_a_result_is_laid_out_as_declared(symbols: dict[str, int], tmp_path: Path) -> None:
    """The vector at 0, element_index at 0x18, the two flags at 0x20 and 0x21."""
    text = code(tmp_path, symbols, "tensorflow::data::GetElementResult::Copy() const", 0x40)
    assert re.findall(r"mov[a-z]* +0x([0-9a-f]+)\(%r14\)", text) == ["18", "20", "21"]


def test_the_library_exports_its_c_interface_only_and_needs_tensorflow() -> None:
    path = loader.load().path.parent / tensorflows.transport_name(tf.__version__)
    names = {line.split()[-1] for line in said("nm", "-D", "--defined-only", path).splitlines()}
    assert names == {
        "tfq_transport_register", "tfq_transport_add_token", "tfq_transport_close", "tfq_transport_join",
        "tfq_transport_counts", "tfq_build_info",
    }  # fmt: skip
    needed = {line.split()[-1].split(".so")[0] for line in said("objdump", "-p", path).splitlines() if "NEEDED" in line}
    assert needed <= {
        "libtensorflow_framework", "libtensorflow_cc", "libstdc++", "libgcc_s", "libc", "libm", "ld-linux-x86-64",
    }  # fmt: skip


def test_only_the_minor_version_that_it_was_declared_for_has_one() -> None:
    assert tensorflows.transport_name("2.21.3") == "libtfquiver_transport_tf2_21.so"
    assert tensorflows.transport_name("2.20.0") == tensorflows.transport_name("2.22.0-dev20260101") == ""
    assert transport.load() is transport.load() is not None
