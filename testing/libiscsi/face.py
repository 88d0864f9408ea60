"""What the tests of Skiff's libiscsi.so.7 share: its folder, as it is installed, and programs that run with it or without."""

import os
import pathlib
import select
import shutil
import socket
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parents[1] / "interop"))
import peers  # pylint: disable=wrong-import-position

SECONDS = 60
LUNS = ("ram:256MiB", "ram:64MiB")
# As libraries are called, in messages and in names.
SKIFF = "skiff"
LIBISCSI = "libiscsi"


class Failure(Exception):
    """A program did not do what it should."""


class Libraries:
    """Skiff's face below a folder of ours, and Debian's library."""

    def __init__(self, directory, face, libskiff):
        self.folder = pathlib.Path(directory, "lib/skiff")
        self.folder.mkdir(parents=True)
        shutil.copy(libskiff, self.folder.parent / "libskiff.so.0")
        shutil.copy(face, self.folder / "libiscsi.so.7")

    def environment(self, library):
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        environment.pop("LD_LIBRARY_PATH", None)
        if library == SKIFF:
            environment["LD_LIBRARY_PATH"] = str(self.folder)
        return environment

    def start(self, library, *command, **options):
        return peers.spawn(command, env=self.environment(library), text=True, errors="replace", **options)

    def run(self, library, *command, status=0):
        """A command's output and errors."""
        got, output = peers.run_limited([str(part) for part in command], SECONDS, env=self.environment(library))
        if got != status:
            raise Failure(f"{' '.join(map(str, command))} with {library}: status {got}\n{output}")
        return output

    def check_loaded(self, process):
        """That a process has ours, and not Debian's."""
        maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8")
        loaded = {line.split()[-1] for line in maps.splitlines() if "/libiscsi.so" in line}
        if loaded != {str(self.folder / "libiscsi.so.7")}:
            raise Failure(f"loaded: {loaded}")


class Once:
    """A portal that leads one connection to another portal, and refuses all others."""

    def __init__(self, port):
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.portal = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._lead, daemon=True).start()

    def _lead(self):
        near, _ = self._listener.accept()
        self._listener.close()
        with near, socket.create_connection(("127.0.0.1", self._port)) as far:
            ends = {near: far, far: near}
            while True:
                for end in select.select(list(ends), [], [])[0]:
                    data = end.recv(1 << 16)
                    if not data:
                        return
                    ends[end].sendall(data)


def compile_c(out, source):
    """With libiscsi's headers and library."""
    root = pathlib.Path(__file__).absolute().parents[2]
    subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", "-I", root, "-o", out,
                    source, "-liscsi"], check=True, timeout=SECONDS)


def expect(what, got, wanted):
    if got != wanted:
        raise Failure(f"{what}: got\n{got}\nbut should be\n{wanted}")
