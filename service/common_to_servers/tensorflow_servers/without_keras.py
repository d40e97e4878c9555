"""TensorFlow without the Keras that it imports at its own import, for servers, which run graphs and train nothing.

Keras in turn imports what it finds of scikit-learn, pandas and Matplotlib. Measured with TensorFlow 2.21 and all of
those: 4.0 s of CPU and 668 MiB for `import tensorflow`, 2.2 s and 532 MiB without.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


@contextmanager
def without_keras() -> Iterator[None]:
    """In here Keras is installed, but cannot be imported: TensorFlow (seen with 2.21) then does without it.

    Afterwards it can: `tf.keras` is imported when it is first used, as ever.
    """
    finder = _NotImported()
    # New lists: another thread may be going through the one that there is.
    sys.meta_path = [finder, *sys.meta_path]
    try:
        yield
    finally:
        sys.meta_path = [one for one in sys.meta_path if one is not finder]


class _NotImported(MetaPathFinder):
    _NAMES = frozenset({"keras", "tf_keras"})

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """With the place where it is: TensorFlow asks for that, too, and does not expect an error there."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname in self._NAMES else None
        if spec is not None:
            spec.loader = _Refusing()
        return spec


class _Refusing(Loader):
    def exec_module(self, module: ModuleType) -> None:
        raise ImportError(f"{module.__name__} is not imported with TensorFlow in a server", name=module.__name__)
