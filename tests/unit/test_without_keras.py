from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

from tfquiver.service.common_to_servers.tensorflow_servers.without_keras import without_keras


def test_keras_can_be_found_but_not_imported_and_afterwards_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("keras", "keras_of_others"):
        package = tmp_path / name
        package.mkdir()
        (package / "__init__.py").write_text("there = True\n")
        monkeypatch.setitem(sys.modules, name, None)  # so that it is put back, or taken out again, at the end
        del sys.modules[name]
    monkeypatch.syspath_prepend(tmp_path)
    for module in [name for name in sys.modules if name.startswith("keras.")]:  # another test's
        monkeypatch.delitem(sys.modules, module)

    with without_keras():
        spec = importlib.util.find_spec("keras")
        assert spec and spec.origin == str(tmp_path / "keras" / "__init__.py")
        with pytest.raises(ImportError, match="keras is not imported with TensorFlow in a server"):
            importlib.import_module("keras.src.optimizers")
        assert "keras" not in sys.modules
        assert importlib.import_module("keras_of_others").there

    assert importlib.import_module("keras").there


def test_what_is_not_installed_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "tf_keras", raising=False)
    with without_keras():
        assert importlib.util.find_spec("tf_keras") is None
    assert "_NotImported" not in [type(finder).__name__ for finder in sys.meta_path]
