"""Makes a repository of the TensorFlow that is installed for `python3` on PATH."""

_LOCATE = """
import importlib.util, pathlib
from importlib import metadata
print(pathlib.Path(importlib.util.find_spec("tensorflow").origin).parent)
print(metadata.version(metadata.packages_distributions()["tensorflow"][0]))
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob(["include/**"]),
    includes = ["include", "include/external/zlib"],
    defines = ['TFQUIVER_TF_VERSION=\\\\"{version}\\\\"', "TFQUIVER_TF_TUNER"],
)

cc_import(
    name = "framework_so",
    shared_library = "libtensorflow_framework.so.2",
)

cc_library(
    name = "framework",
    deps = [":headers", ":framework_so"],
)

cc_import(
    name = "cc_so",
    shared_library = "libtensorflow_cc.so.2",
)

cc_library(
    name = "cc",
    deps = [":framework", ":cc_so"],
)
"""

def _configure(repository_ctx):
    python = repository_ctx.which("python3")
    found = repository_ctx.execute([python, "-c", _LOCATE])
    if found.return_code:
        fail("no TensorFlow for {}: pip install tensorflow, and put its bin first on PATH\n{}".format(python, found.stderr))
    folder, version = found.stdout.strip().split("\n")
    for name in ["include", "libtensorflow_framework.so.2", "libtensorflow_cc.so.2"]:
        repository_ctx.symlink(folder + "/" + name, name)
    repository_ctx.file("BUILD", _BUILD.format(version = version))
    repository_ctx.file("version.bzl", 'TF_MINOR = "{}"\n'.format("_".join(version.split(".")[:2])))

tensorflow_configure = repository_rule(implementation = _configure, environ = ["PATH"], local = True)
