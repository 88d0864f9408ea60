"""Builds fio's engine by fio's sources. Debian has no package of fio's headers: apt-get fetches the sources, which are
configured, and kept in a cache folder.
"""

import contextlib
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).absolute().parent
PACKAGE = "fio"
# Seconds. A mirror that does not answer ends the download sooner (APT_OPTIONS).
UPDATE_SECONDS = 300
SOURCE_SECONDS = 300
CONFIGURE_SECONDS = 300
COMPILE_SECONDS = 120
LOCK_SECONDS = UPDATE_SECONDS + SOURCE_SECONDS + CONFIGURE_SECONDS
APT_OPTIONS = ("-q", "-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=30", "-o", "Acquire::https::Timeout=30",
               "-o", "APT::Get::List-Cleanup=false", "-o", "Acquire::Languages=none")
ONE_LINE = re.compile(r"^\s*deb(?:-src)?(?=\s)")
TYPES = re.compile(r"^Types:.*$", re.MULTILINE | re.IGNORECASE)
SHOWN_LINES = 20
WARNINGS = ("-Wall", "-Wextra", "-Werror")


class SourceError(Exception):
    """For people."""


def run(command, seconds, what, **options):
    """A command's output; an error says what it was for, and ends with what the command said last."""
    words = [str(part) for part in command]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=seconds, check=False, **options)
    except FileNotFoundError:
        raise SourceError(f"{what}: {words[0]} is not installed: run tools/install-deps test") from None
    except subprocess.TimeoutExpired:
        raise SourceError(f"{what}: {words[0]} has not ended after {seconds} s") from None
    if done.returncode != 0:
        last = "\n".join(done.stdout.splitlines()[-SHOWN_LINES:])
        raise SourceError(f"{what}: {words[0]} ended with status {done.returncode}:\n{last}")
    return done.stdout


def cache_folder():
    home = os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path(home, ".cache"), "skiff-fio")


def installed_version():
    """Of the source package that the installed fio was made of: the engine has to fit to that one."""
    try:
        output = run(["dpkg-query", "--show", "--showformat=${db:Status-Status} ${source:Version}", PACKAGE], 30, "fio's version")
    except SourceError:
        output = ""
    status, _, version = output.partition(" ")
    if status != "installed":
        raise SourceError("fio is not installed: apt install fio, or name a tree of yours by --fio-source")
    return version.strip()


def source_entries(etc):
    """What the machine's lists of packages say, for sources: (text of a .list, text of a .sources)."""
    lines, stanzas = [], []
    for path in sorted([etc / "sources.list", *etc.glob("sources.list.d/*.list")]):
        if path.is_file():
            matching = filter(ONE_LINE.match, path.read_text(encoding="utf-8").splitlines())
            lines += [ONE_LINE.sub("deb-src", line) for line in matching]
    for path in sorted(etc.glob("sources.list.d/*.sources")):
        text = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
        stanzas += [TYPES.sub("Types: deb-src", stanza.strip()) for stanza in re.split(r"\n\s*\n", text) if TYPES.search(stanza)]
    return "".join(f"{line}\n" for line in dict.fromkeys(lines)), "\n\n".join(stanzas) + "\n"


class Apt:
    """apt-get with lists and caches of its own, below a folder. It changes nothing of the machine's."""

    def __init__(self, folder, etc=pathlib.Path("/etc/apt")):
        lists, parts = folder / "lists", folder / "sources.list.d"
        for made in (lists / "partial", folder / "cache/archives/partial", parts):
            made.mkdir(parents=True, exist_ok=True)
        one_line, stanzas = source_entries(etc)
        if not one_line and not stanzas.strip():
            raise SourceError(f"{etc} names no packages: name a tree of yours by --fio-source")
        (folder / "sources.list").write_text(one_line, encoding="utf-8")
        (parts / "machine.sources").write_text(stanzas, encoding="utf-8")
        settings = {"Dir::Etc::sourcelist": folder / "sources.list", "Dir::Etc::sourceparts": parts, "Dir::State::lists": lists,
                    "Dir::Cache": folder / "cache"}
        self._options = [*APT_OPTIONS, *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]
        if os.getuid() == 0:
            # Else it would fetch as another user, who may not look into this one's home.
            self._options += ["-o", "APT::Sandbox::User=root"]

    def fetch(self, package, version, folder):
        """Unpacks a source package below `folder`, and returns the folder of its sources."""
        update = None
        try:
            run(["apt-get", *self._options, "update"], UPDATE_SECONDS, "the lists of source packages")
        except SourceError as error:
            update = error  # One list of many may have no sources; what matters is whether there are fio's.
        try:
            run(["apt-get", *self._options, "source", f"{package}={version}"], SOURCE_SECONDS,
                f"the sources of {package} {version}", cwd=folder)
        except SourceError as error:
            raise SourceError(f"{error}\n{update}" if update else str(error)) from None
        trees = [path for path in folder.iterdir() if path.is_dir()]
        if len(trees) != 1:
            raise SourceError(f"the sources of {package} {version}: apt-get made {len(trees)} folders, not one")
        return trees[0]


@contextlib.contextmanager
def locked(folder):
    """One at a time: the others wait, and then find what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as file:
        # flock() has no limit of its own.
        run(["flock", "--exclusive", "--timeout", LOCK_SECONDS, str(file.fileno())], LOCK_SECONDS + 10,
            f"waiting for another build that uses {folder}", pass_fds=(file.fileno(),))
        yield


def configure(tree):
    """Makes the header that says what this machine has."""
    if not (tree / "ioengines.h").is_file():
        raise SourceError(f"{tree} does not have fio's sources: ioengines.h is missing")
    if not (tree / "config-host.h").is_file():
        run(["./configure"], CONFIGURE_SECONDS, f"configuring {tree}", cwd=tree)
    return tree


def tree(given=None):
    """A folder with fio's sources and config-host.h: the one given, or that of the installed fio."""
    if given:
        return configure(pathlib.Path(given).resolve())
    version = installed_version()
    folder = cache_folder()
    kept = folder / f"fio-{version}"
    with locked(folder):
        if not kept.is_dir():
            with tempfile.TemporaryDirectory(dir=folder, prefix="new-") as made:
                sources = pathlib.Path(made, "sources")
                sources.mkdir()
                configure(Apt(pathlib.Path(made, "apt")).fetch(PACKAGE, version, sources)).rename(kept)
    return kept


def version_of(sources):
    """What such a fio calls itself."""
    found = re.search(r"^DEF_VER=(\S+)", (sources / "FIO-VERSION-GEN").read_text(encoding="utf-8"), re.MULTILINE)
    if not found:
        raise SourceError(f"{sources}/FIO-VERSION-GEN does not say which version of fio it is")
    return found[1]


def compile_engine(sources, engine, out, *flags, warnings=WARNINGS):
    """A shared object that fio loads, of one file in C, by the headers of `sources`. Returns `out`."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f"{out.name}.") as folder:
        made = pathlib.Path(folder, out.name)
        run(["cc", "-std=gnu11", "-O2", "-g", *warnings, "-fPIC", "-shared", "-fvisibility=hidden", "-D_GNU_SOURCE",
             f"-fmacro-prefix-map={engine.parent}/=", "-isystem", sources, "-include", "config-host.h", "-o", made, engine, *flags], COMPILE_SECONDS,
            f"compiling {engine}")
        made.chmod(0o644)
        shutil.move(made, out)  # A fio that runs keeps its file.
    return out


def build_engine(headers, library, out, source=None):
    """Skiff's engine, by Skiff's headers. It is linked with `library`, which it looks for in the folder above its own."""
    for path in (headers / "skiff/skiff.h", library):
        if not path.is_file():
            raise SourceError(f"{path} is not there: install Skiff first")
    sources = tree(source)
    return compile_engine(sources, HERE / "engine.c", out, f'-DFIO_BUILT_FOR="{version_of(sources)}"', "-I", headers, library,
                          "-Wl,-rpath,$ORIGIN/..", "-Wl,--enable-new-dtags")
