"""File permissions that bind a test also where it runs as root, as tests in CI do."""

import ctypes
import os
from contextlib import contextmanager

_VERSION = 0x20080522  # of the call: 64 bits of capabilities, in two halves
_PASSES_OVER = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_SET_SECUREBITS, _NO_ROOT = 28, 1  # so that programs that are started get no capabilities either


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Half(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


@contextmanager
def binding():
    """Take from this thread, and what it starts, the power of root to pass over permissions."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, halves = _Header(_VERSION, 0), (_Half * 2)()
    _called(libc.capget(ctypes.byref(header), halves))
    before = halves[0].effective
    _called(libc.prctl(_SET_SECUREBITS, _NO_ROOT, 0, 0, 0))
    halves[0].effective = before & ~_PASSES_OVER
    _called(libc.capset(ctypes.byref(header), halves))
    try:
        yield
    finally:
        halves[0].effective = before
        _called(libc.capset(ctypes.byref(header), halves))
        _called(libc.prctl(_SET_SECUREBITS, 0, 0, 0, 0))


def _called(status):
    if status != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
