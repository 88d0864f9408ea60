"""Targets on this machine, each with a disk in memory, which run only while they are measured."""

import contextlib
import os
import pathlib
import signal

from runner import TARGET_CORE, Stopped, peers

# Larger than the caches of a core and smaller than those of most machines: so that the protocol is measured, for all
# alike, and not the memory.
LUN_BYTES = 64 << 20
LUN_SPEC = f"ram:{LUN_BYTES}"


class StoppedTgtd(Stopped, peers.Tgtd):
    block_size = 512


class StoppedSkiffd(Stopped, peers.Skiffd):
    block_size = 512


@contextlib.contextmanager
def started_tgtd(machine):
    """tgt with its asynchronous backend on a file in memory."""
    image = pathlib.Path("/dev/shm") / f"skiff-compare-{os.getpid()}"
    try:
        with open(image, "wb") as file:
            block = os.urandom(1 << 20)
            for _ in range(LUN_BYTES >> 20):
                file.write(block)
        with StoppedTgtd(image, machine.directory, bstype="aio", core=TARGET_CORE) as target:
            os.kill(target.pid, signal.SIGSTOP)
            yield target
    finally:
        image.unlink(missing_ok=True)
