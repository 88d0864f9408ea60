"""Programs in a guest that wait for one another."""

import contextlib
import os
import re
import subprocess
import time

SECONDS = 30
# Nobody listens: the reasons of InfiniBand's CM (invalid service ID) and of TCP (connection refused).
NOBODY_LISTENS = re.compile(r"REJECTED[,;] error:? (8|-111)\b")


class ProgramFailed(AssertionError):
    """A program ended with another status than 0: below 0, of this signal."""

    def __init__(self, command, status, output):
        super().__init__(f"{' '.join(command)}: exit status {status}: {output.strip()}")
        self.status = status
        self.nobody_listened = bool(NOBODY_LISTENS.search(output))


def output_of(*command):
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise ProgramFailed(command, done.returncode, done.stdout)
    return done.stdout


def wait_for(what, condition, *arguments, seconds=SECONDS):
    deadline = time.monotonic() + seconds
    while not condition(*arguments):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s for this: {what}")
        time.sleep(0.05)


def expect(what, condition):
    if not condition:
        raise AssertionError(f"not so: {what}")


def listens_rdma(process):
    return re.search(rf"state LISTEN .*pid {process.pid} ", output_of("rdma", "resource", "show", "cm_id"))


class Heard:
    """What a process that goes on has printed so far."""

    def __init__(self, process):
        self._descriptor = process.stdout.fileno()
        os.set_blocking(self._descriptor, False)
        self.text = ""

    def says(self, pattern):
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._descriptor, 65536):
                self.text += chunk.decode()
        return re.search(pattern, self.text)

    def wait_for(self, pattern, seconds=SECONDS):
        try:
            wait_for(f"a line {pattern}", self.says, pattern, seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; it said {self.text!r}") from error

    def forget(self):
        self.says("")
        self.text = ""


@contextlib.contextmanager
def serving(server, listens):
    """A server that listens already. It is killed in the end."""
    with subprocess.Popen(
        server, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            deadline = time.monotonic() + SECONDS
            while not listens(process):
                if process.poll() is not None or time.monotonic() > deadline:
                    process.kill()
                    raise AssertionError(f"{' '.join(server)} does not listen: {process.communicate()[0].strip()}")
                time.sleep(0.05)
            yield process
        finally:
            process.kill()


def connect(client):
    """The client's output. The kernel shows a listener a moment before connections reach it.

    A client that was refused and died of a signal may have been connected before: its server is in the midst of
    something, and another client would wait for it in vain.
    """
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return output_of(*client)
        except ProgramFailed as failed:
            if not failed.nobody_listened or failed.status < 0 or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def serve_and_connect(server, client, listens):
    """Runs a server, and a client as soon as it listens. The client's output; both have to succeed."""
    with serving(server, listens) as process:
        result = connect(client)
        messages, _ = process.communicate(timeout=SECONDS)
        if process.returncode != 0:
            raise AssertionError(f"{' '.join(server)}: exit status {process.returncode}: {messages.strip()}")
        return result
