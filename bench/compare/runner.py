"""What the programs of this directory share: their options, and the virtual machine that some of their sections need."""

import argparse
import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUICK_ROUNDS = 1


class Failure(Exception):
    """A program that did not do what was asked of it."""


@dataclasses.dataclass(frozen=True)
class Work:
    """What a load does: reads or writes of one size, so many at once."""

    rw: str
    kib: int
    depth: int

    def __str__(self):
        return f"{self.kib} KiB {self.rw}, depth {self.depth}"

    @property
    def direction(self):
        return "write" if "write" in self.rw else "read"


class Stopped:
    """Adds to a target that it only runs while it is measured: another one polls on the same core."""

    @contextlib.contextmanager
    def running(self):
        os.kill(self.pid, signal.SIGCONT)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGSTOP)

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)
        super().stop()


def sections_of(names):
    """The functions `section_*` among what a module has, by the rest of their names."""
    return {name[len("section_"):]: function for name, function in list(names.items()) if name.startswith("section_")}


def parse_options(description, sections, seconds, rounds=5, guest=False, more=None):
    """The options of the command line, with those that `more` adds to the parser.

    Fails where there are not the two cores that all of this needs.
    """
    listed = "\n".join(f"  {name:13}{function.__doc__}" for name, function in sections.items())
    parser = argparse.ArgumentParser(description=f"{description}\nsections:\n{listed}",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--section", action="append", choices=sections, help="only this one; may be given again")
    parser.add_argument("--quick", action="store_true", help="one short round; does not judge: the exit status is 0")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seconds", type=float, default=seconds, help="of one measurement")
    parser.add_argument("--json", metavar="FILE", help="also write every sample and the goals there" + (
        "; those of sections in the virtual machine to FILE's name with the device's added" if guest else ""))
    parser.add_argument("--binaries", metavar="DIR", help="a bazel-bin to take, instead of building")
    if more is not None:
        more(parser)
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        parser.error("needs two cores: one for each end")
    options.section = options.section or list(sections)
    return options


def programs(options, labels):
    """The paths of programs, which are built if there is no directory to take them from."""
    if not options.binaries:
        subprocess.run(["bazel", "build", "--config=opt", "--ui_event_filters=-info", "--noshow_progress", *labels],
                       cwd=ROOT, check=True)
    directory = pathlib.Path(options.binaries or ROOT / "bazel-bin").resolve()
    return [directory / label[2:].replace(":", "/") for label in labels]


def in_guest():
    return "SKIFF_VM_ADDRESS" in os.environ


def run_in_guest(program, sections, device, options, timeout):
    """Runs sections of a program of this directory there. Whether it succeeded."""
    command = [ROOT / "testing/vm/run", f"--device={device}", f"--timeout={timeout}"]
    arguments = [program, "--rounds", options.rounds, "--seconds", options.seconds,
                 "--binaries", pathlib.Path(options.binaries or ROOT / "bazel-bin").resolve()]
    for section in sections:
        arguments += ["--section", section]
    if options.quick:
        arguments.append("--quick")
    if options.json:
        file = pathlib.Path(options.json).resolve()
        command.append(f"--writable={file.parent}")
        arguments += ["--json", file.with_name(f"{file.stem}-{device}{file.suffix}")]
    return subprocess.run([str(part) for part in [*command, "--", *arguments]], check=False).returncode == 0
