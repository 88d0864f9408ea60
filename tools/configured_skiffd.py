"""A skiffd with a configuration file, for tests that change it while it runs."""

import pathlib
import re
import subprocess
import tempfile
import unittest

SECONDS = 60
MEBIBYTE = 1 << 20
PREFIX = "iqn.2026-11.com.example"
OK = 0


def lun(medium, rest=""):
    return f"lun {{ {medium} {rest} }}\n"


def ram(mebibytes, rest=""):
    return lun(f'ram {{ size: "{mebibytes}MiB" }}', rest)


def target(name, *parts):
    return f'target {{ name: "{PREFIX}:{name}"\n{"".join(parts)}}}\n'


class ConfiguredTest(unittest.TestCase):
    """Has the paths of the programs, once they are set."""

    skiffd = skiff_program = None

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        self.config = self.path / "skiffd.conf"
        self.process = None

    # `under` is a command that becomes skiffd.
    def start(self, *parts, under=()):
        self.write(*parts)
        with open(self.path / "log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([*under, self.skiffd, "--config", self.config], stdout=subprocess.PIPE, stderr=log, text=True)
        ready = self.process.stdout.readline()
        self.addCleanup(self.end)
        self.assertIn("ready", ready, self.log())
        self.portal = re.search(r"portal=tcp://(\S+)", ready)[1]

    def end(self):
        self.process.terminate()
        status = self.process.wait(SECONDS)
        self.process.stdout.close()
        self.assertEqual(status, 0, self.log())

    def write(self, *parts):
        self.config.write_text('portal: "tcp://127.0.0.1:0"\n' + "".join(parts), encoding="utf-8")

    def log(self):
        return (self.path / "log").read_text(encoding="utf-8")

    def skiff(self, *arguments, data=None):
        return subprocess.run([self.skiff_program, *map(str, arguments)], capture_output=True, timeout=SECONDS, input=data, check=False)

    def url(self, name, number):
        return f"iscsi://{self.portal}/{PREFIX}:{name}/{number}"

    def capacity(self, name, number):
        result = self.skiff("capacity", self.url(name, number))
        return result.stdout.decode() if result.returncode == OK else None

    def perf(self, name, number, *more):
        return subprocess.Popen([self.skiff_program, "perf", self.url(name, number), "--rw=write", "--verify", "--iodepth=4",
                                 "--runtime=1h", *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
