#!/usr/bin/env python3
"""Makes Debian packages, asks lintian about them, and uses them in a root of their own.

Usage: package_test.py FILE DATE PACKAGE... [-- TEST...]

FILE is below a folder as bazel-bin is, and the packages were made of it, with the date.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path.cwd()
SECONDS = 200
built = None
date = None
made = None  # Files by the names of their packages.


def run(*command, **environment):
    result = subprocess.run([str(part) for part in command], env={**os.environ, "LC_ALL": "C.UTF-8", **environment},
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit status {result.returncode}\n{result.stdout}")
    return result.stdout


class PackageTest(unittest.TestCase):
    """The packages that were made."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = pathlib.Path(tempfile.mkdtemp(prefix="skiff-packages-"))
        cls.packages = made
        cls.root = cls.temporary / "root"
        for package in cls.packages.values():
            run("dpkg-deb", "--extract", package, cls.root)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.temporary)

    def field(self, package, name):
        return run("dpkg-deb", "--field", self.packages[package], name).strip()

    def test_lintian_finds_nothing(self):
        # They are not for Debian's archive, where a new package closes a request for it.
        output = run("lintian", "--fail-on=error,warning", "--allow-root", "--no-user-dirs",
                     "--suppress-tags=initial-upload-closes-no-bugs", *sorted(self.packages.values()))
        self.assertEqual("", output)

    def test_the_same_files_make_the_same_packages(self):
        out = self.temporary / "again"
        run(ROOT / "tools/package", "--out", out, "--use", built, "--date", date)
        again = {path.name.partition("_")[0]: path for path in out.glob("*.deb")}
        self.assertEqual(set(self.packages), set(again))
        for name, package in self.packages.items():
            self.assertEqual(package.read_bytes(), again[name].read_bytes(), name)

    def test_they_depend_on_what_they_need_and_not_on_rdma(self):
        depends = self.field("libskiff0", "Depends")
        for package in ("libabsl20220623", "libisal2", "libstdc++6", "libc6"):
            self.assertIn(package, depends)
        for name in self.packages:
            self.assertNotRegex(self.field(name, "Depends"), "ibverbs|rdmacm|fabric")
        self.assertRegex(self.field("libskiff-dev", "Depends"), r"libskiff0 \(= ")
        self.assertIn("libfabric1", self.field("libskiff0", "Recommends"))
        for package in ("libskiff-dev", "libabsl-dev", "libgtest-dev", "libbenchmark-dev"):
            self.assertIn(package, self.field("skiff-transport-dev", "Depends"))
        self.assertRegex(self.field("nbdkit-plugin-skiff", "Depends"), r"nbdkit, .*libskiff0 \(>= ")

    def test_dpkg_takes_and_removes_them(self):
        root = self.temporary / "dpkg"
        for folder in ("info", "parts", "triggers", "updates"):
            (root / "var/lib/dpkg" / folder).mkdir(parents=True)
        for file in ("status", "available"):
            (root / "var/lib/dpkg" / file).touch()
        dpkg = ("dpkg", f"--root={root}", "--force-not-root", "--force-depends", "--force-script-chrootless", "--log=/dev/null")
        # It looks for ldconfig and others, which are not where users' programs are.
        path = os.environ["PATH"] + ":/usr/sbin:/sbin"
        run(*dpkg, "--install", *sorted(self.packages.values()), PATH=path)
        self.assertTrue((root / "usr/sbin/skiffd").is_file())
        self.assertTrue((root / "usr/share/man/man3/skiff_disk_open.3.gz").exists())
        for file in ("grafana/skiff.json", "prometheus/skiff.rules.yml"):
            self.assertTrue((root / "usr/share/skiff" / file).is_file(), file)
        disk = root / "var/lib/skiff/disk.img"
        disk.parent.mkdir(parents=True)
        disk.touch()
        run(*dpkg, "--purge", *sorted(self.packages), PATH=path)
        self.assertFalse((root / "usr/sbin/skiffd").exists())
        self.assertFalse((root / "usr/include/skiff").exists())
        self.assertTrue(disk.exists())

    def test_they_take_the_files_of_the_package_that_had_both_programs(self):
        for name in ("skiff-target", "skiff-tools"):
            self.assertEqual("skiff (<< 1.0-2~)", self.field(name, "Breaks"))
            self.assertEqual("skiff (<< 1.0-2~)", self.field(name, "Replaces"))
            run("dpkg", "--compare-versions", self.field(name, "Version"), "ge", "1.0-2~")
        version = self.field("skiff", "Version")
        self.assertEqual(f"skiff-target (= {version}), skiff-tools (= {version})", self.field("skiff", "Depends"))

    def test_the_service_is_one_that_systemd_takes_and_confines(self):
        unit = self.root / "lib/systemd/system/skiffd.service"
        # Tenths of systemd's exposure: "OK" ends at 50.
        run("systemd-analyze", "security", "--offline=true", "--threshold=30", "--no-pager", unit)
        # It also says that the program is not at its place.
        result = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False)
        self.assertIn("/usr/sbin/skiffd is not executable", result.stdout)
        self.assertNotRegex(result.stdout, "(?i)unknown|parse|invalid|ignoring")

    def test_the_configuration_is_valid_and_the_administrators(self):
        run(self.root / "usr/sbin/skiffd", "--check", "--config", self.root / "etc/skiff/skiffd.conf")
        folder = self.temporary / "control"
        run("dpkg-deb", "--control", self.packages["skiff-target"], folder)
        self.assertEqual("/etc/skiff/skiffd.conf\n", (folder / "conffiles").read_text(encoding="utf-8"))
        self.assertIn("systemd-sysusers", (folder / "postinst").read_text(encoding="utf-8"))

    def test_a_program_is_built_and_run_with_them(self):
        libdir = self.root / "usr/lib" / run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
        flags = run("pkg-config", "--cflags", "--libs", "skiff", PKG_CONFIG_PATH=str(libdir / "pkgconfig"),
                    PKG_CONFIG_SYSROOT_DIR=str(self.root), PKG_CONFIG_ALLOW_SYSTEM_CFLAGS="1", PKG_CONFIG_ALLOW_SYSTEM_LIBS="1")
        program = self.temporary / "plain"
        run("cc", "-std=c11", "-D_GNU_SOURCE", "-o", program, ROOT / "testing/installed/hosts/plain.c", *flags.split())
        self.assertEqual("plain: done\n", run(program, LD_LIBRARY_PATH=str(libdir)))

    def test_the_programs_run(self):
        for program in ("usr/bin/skiff", "usr/sbin/skiffd"):
            self.assertIn(self.field("skiff", "Version").partition("-")[0], run(self.root / program, "--version"))
        self.assertIn("--transport", run(self.root / "usr/bin/skiff-conformance", "--help"))
        self.assertIn("codec/Encode", run(self.root / "usr/bin/skiff-bench", "run", "--filter=codec/Encode", "--repetitions=1",
                                          "--min-time=0.001"))

    def test_nbdkit_finds_its_plugin(self):
        libdir = pathlib.Path("usr/lib", run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip())
        plugins = re.search(r"^plugindir=/(.*)$", run("nbdkit", "--dump-config"), re.MULTILINE)[1]
        self.assertEqual(str(libdir / "nbdkit/plugins"), plugins)
        facts = run("nbdkit", self.root / plugins / "nbdkit-skiff-plugin.so", "--dump-plugin",
                    LD_LIBRARY_PATH=str(self.root / libdir))
        self.assertIn("name=skiff\n", facts)

    def test_programs_find_libiscsis_functions(self):
        libdir = self.root / "usr/lib" / run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
        self.assertRegex(self.field("libiscsi-skiff", "Depends"), r"libskiff0 \(>= ")
        # By itself, also below another root.
        loaded = run("ldd", libdir / "skiff/libiscsi.so.7")
        self.assertIn(str(libdir), re.search(r"libskiff\.so\.0 => (\S+)", loaded)[1])


def main():
    global built, date, made  # pylint: disable=global-statement
    arguments = sys.argv[1:]
    tests = []
    if "--" in arguments:
        tests = arguments[arguments.index("--") + 1:]
        del arguments[arguments.index("--"):]
    built = str(pathlib.Path(arguments[0]).parents[2])
    date = arguments[1]
    made = {pathlib.Path(path).stem: ROOT / path for path in arguments[2:]}
    unittest.main(argv=[sys.argv[0], *tests], verbosity=2)


if __name__ == "__main__":
    main()
