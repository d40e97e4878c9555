"""How many accelerators this process trains on, as TensorFlow says."""

from __future__ import annotations

import sys
from typing import Any

from absl import logging

MOST = 65_536  # of one process
_KINDS = ("GPU", "TPU")


def of_process(strategy: Any = None) -> int:
    """Those of the distribution strategy, `strategy` or the one whose scope this is, that are this machine's; without
    one all that TensorFlow sees. At least 1, also on a processor; never raises, and never imports TensorFlow."""
    tf: Any = sys.modules.get("tensorflow")
    if tf is None:
        return 1
    try:
        if strategy is None and tf.distribute.has_strategy():
            strategy = tf.distribute.get_strategy()
        if strategy is not None and not _is_default(strategy):
            devices = [tf.DeviceSpec.from_string(str(name)) for name in strategy.extended.worker_devices]
            found = sum(str(device.device_type).upper() in _KINDS for device in devices)
        else:
            found = max(len(tf.config.list_logical_devices(kind)) for kind in _KINDS)
    except Exception as error:  # noqa: BLE001 - of TensorFlow and of strategies of others; a number is all it is for
        logging.warning("accelerators are taken to be 1: %s", error)
        return 1
    return max(found, 1)


def _is_default(strategy: Any) -> bool:
    """TensorFlow's stand-in for none, which knows of no devices: what a model has that was made without one."""
    return type(strategy).__name__.strip("_").startswith("DefaultDistribution")
