"""Reads and writes of a disk that go on and on, each checked."""

import mmap
import os
import random
import threading
import time

BLOCK = 4096
THREADS = 2
BLOCKS = 256  # Of each thread.
# Processors are left for what happens meanwhile.
PAUSE_SECONDS = 0.01


class CheckedIo:
    """Past the page cache. Starts at once. Thread-safe."""

    def __init__(self, device):
        self.failure = None  # What went wrong first.
        self._descriptor = os.open(device, os.O_RDWR | os.O_DIRECT)
        self._done = [0] * THREADS
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(index,)) for index in range(THREADS)]
        for thread in self._threads:
            thread.start()

    @property
    def done(self):
        """So many reads and writes have succeeded."""
        return sum(self._done)

    def stop(self):
        """Reads once more what was written. May be called again."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _run(self, index):
        try:
            self._use(index)
        except (OSError, ValueError) as error:
            self.failure = self.failure or error

    def _use(self, index):
        chance = random.Random(index)
        # O_DIRECT wants memory that is aligned.
        with mmap.mmap(-1, BLOCK) as memory:
            written = {}
            while not self._stopped.is_set():
                block = index * BLOCKS + chance.randrange(BLOCKS)
                if block in written and chance.random() < 0.5:
                    self._check(memory, block, written[block])
                else:
                    written[block] = chance.randbytes(16) * (BLOCK // 16)
                    memory[:] = written[block]
                    self._whole(os.pwritev(self._descriptor, [memory], block * BLOCK), block)
                self._done[index] += 1
                time.sleep(PAUSE_SECONDS)
            for block, content in written.items():
                self._check(memory, block, content)

    def _check(self, memory, block, content):
        self._whole(os.preadv(self._descriptor, [memory], block * BLOCK), block)
        if memory[:] != content:
            raise ValueError(f"block {block} holds {memory[:16]!r}..., not {content[:16]!r}...")

    @staticmethod
    def _whole(count, block):
        if count != BLOCK:
            raise ValueError(f"block {block}: {count} bytes instead of {BLOCK}")
