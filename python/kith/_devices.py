# SPDX-License-Identifier: Apache-2.0
"""What there is to compute on."""

from __future__ import annotations

import ctypes as c
from typing import NamedTuple

from . import _structs as s
from ._library import lib


class DeviceInfo(NamedTuple):
    """A device: its name for `device=`, whether it can be used, what it is or why it cannot."""

    name: str
    available: bool
    text: str


def devices() -> list[DeviceInfo]:
    """The processor, then every GPU, or one entry that says why there is none."""
    found: list[DeviceInfo] = []
    device = s.sized(s.Device)
    while lib.kith_device_get(len(found), c.byref(device)) == 0:
        text = device.text.decode()
        found.append(DeviceInfo(device.name.decode(), bool(device.available), text))
    return found
