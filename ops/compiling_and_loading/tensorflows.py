"""The TensorFlows that the op is compiled against, and how a library is named for one.

The op uses TensorFlow's C++ interface, which is only the same within one minor version. A library is therefore named
for TensorFlow's major and minor version; one for a build that is no release (nightly, release candidate) for all of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

LIB_DIR = Path(__file__).resolve().parents[1] / "lib"

# What a released wheel brings libraries for. Others are compiled where they are used (own_build.py).
MINORS = ("2.18", "2.19", "2.20", "2.21")

# Those whose plug for tf.data service's transport is as ops/tf_data_transfer_plugin/data_transfer.h declares it.
TRANSPORT_MINORS = ("2.21",)

# Those whose C++ libraries a server has without their Python (`tensorflow_runtime` in service/common_to_servers).
WITHOUT_PYTHON_MINORS = ("2.21",)

# Those whose tuning thread is woken by ops/tf/quiver_ends_at_once_op/tuner_waking.cc, which names private members of
# theirs.
TUNER_MINORS = MINORS


@dataclass(frozen=True)
class TensorFlow:
    """What a compiler must know of one TensorFlow; flags as `tf.sysconfig` gives them.

    `built_by` tells it from others of its version: the commit that it was made of, and the compiler.
    """

    version: str
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    built_by: str = ""


def installed() -> TensorFlow:
    """The one that this process imports. Raises ImportError without one."""
    import tensorflow as tf

    flags = tuple(tf.sysconfig.get_compile_flags()), tuple(tf.sysconfig.get_link_flags())
    return TensorFlow(tf.__version__, *flags, f"{tf.version.GIT_VERSION} {tf.version.COMPILER_VERSION}")


def unpacked(folder: Path) -> TensorFlow:
    """One whose wheel was unpacked, or installed, in `folder`: it is looked at, not imported.

    Raises FileNotFoundError when there is none.
    """
    from email.parser import HeaderParser

    package = folder / "tensorflow"
    library = package / "libtensorflow_framework.so.2"
    found = [path for path in folder.glob("*.dist-info/METADATA") if re.match(_NAME, path.parent.name)]
    if not library.is_file() or len(found) != 1:
        raise FileNotFoundError(f"{folder}: not one unpacked wheel of TensorFlow")
    version = HeaderParser().parsestr(found[0].read_text())["Version"]
    # The flags of every wheel since 2.16.
    flags = (f"-I{package / 'include'}", "-D_GLIBCXX_USE_CXX11_ABI=1", "-DEIGEN_MAX_ALIGN_BYTES=64")
    return TensorFlow(version, flags, (f"-L{package}", f"-l:{library.name}"))


_NAME = r"(tensorflow(_cpu|_rocm|_intel)?|tf_nightly(_cpu)?)-(?P<version>\d.*)\.dist-info"


def version_beside(package: Path) -> str:
    """Of the one whose package this folder is, installed by pip; empty: not known. It is not imported."""
    found = [match["version"] for path in package.parent.iterdir() if (match := re.fullmatch(_NAME, path.name))]
    return found[0] if len(found) == 1 else ""


def library_name(version: str) -> str:
    """The file name of the library for this version of TensorFlow."""
    name = re.sub("[^0-9a-z]+", "_", _minor(version) or version)
    return f"libtfquiver_tf{name}.so"


def transport_name(version: str) -> str:
    """The file name of the transport library for it; empty: it has none."""
    minor = _minor(version)
    return f"libtfquiver_transport_tf{minor.replace('.', '_')}.so" if minor in TRANSPORT_MINORS else ""


def can_be_without_python(version: str) -> bool:
    return _minor(version) in WITHOUT_PYTHON_MINORS


def has_known_tuner(version: str) -> bool:
    return _minor(version) in TUNER_MINORS


def _minor(version: str) -> str:
    """Empty: it is no release."""
    release = _RELEASE.fullmatch(version)
    return ".".join(release.groups()) if release else ""


_RELEASE = re.compile(r"(\d+)\.(\d+)\.\d+")
