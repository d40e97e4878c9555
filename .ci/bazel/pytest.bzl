"""Tests that pytest runs, as Bazel targets."""

def pytest_test(name, src, deps = [], data = [], args = [], **kwargs):
    native.py_test(
        name = name,
        srcs = ["//.ci/bazel:run_pytest.py", src],
        main = "//.ci/bazel:run_pytest.py",
        args = ["$(location %s)" % src] + args,
        data = data + ["//:pyproject.toml"],
        deps = deps,
        python_version = "PY3",
        **kwargs
    )
