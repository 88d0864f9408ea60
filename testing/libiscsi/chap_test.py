#!/usr/bin/env python3
"""Programs that call libiscsi log in by CHAP, with Skiff's libiscsi.so.7 as with Debian's.

Usage: chap_test.py SKIFFD FACE LIBSKIFF
"""

import os
import pathlib
import re
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
import cases  # pylint: disable=wrong-import-position
import face  # pylint: disable=wrong-import-position
import peers  # pylint: disable=wrong-import-position
from face import LIBISCSI, SKIFF  # pylint: disable=wrong-import-position

USER, TARGET_USER = "client", "private"
# libiscsi's URLs take a "%" as it is, and so do we.
SECRET, OWN_SECRET, WRONG = "the client's+50%25", "the target's own", "something else"
INQ_FAILED = 10
CONFIG = """
portal: "tcp://127.0.0.1:0"
discovery_account {{ name: "{user}" secret_file: "{folder}/secret" }}
target {{
  name: "{name}"
  account {{ name: "{user}" secret_file: "{folder}/secret" own_name: "{target_user}"
            own_secret_file: "{folder}/own" }}
  lun {{ ram {{ size: "64MiB" }} }}
}}
"""


class PrivateSkiffd(peers.Skiffd):
    """One whose target has an account."""

    def _description(self):
        for name, secret in (("secret", SECRET), ("own", OWN_SECRET)):
            path = self.directory / name
            path.write_text(secret, encoding="utf-8")
            path.chmod(0o600)
        config = self.directory / "chap.conf"
        config.write_text(CONFIG.format(user=USER, target_user=TARGET_USER, folder=self.directory, name=self.name), encoding="utf-8")
        return ["--config", str(config)]


def url_of(target, secret=SECRET, own=None):
    url = target.url().replace("://", f"://{USER}%{secret}@")
    return url if own is None else f"{url}?target_user={TARGET_USER}&target_password={own}"


def expect_output(output, words, where):
    """It has the words, and no secret."""
    if words not in output:
        raise face.Failure(f"no '{words}' {where}:\n{output}")
    for secret in (SECRET, OWN_SECRET, WRONG):
        if secret in output:
            raise face.Failure(f"a secret {where}:\n{output}")


def check_urls(libraries, target):
    for library in (SKIFF, LIBISCSI):
        for own in (None, OWN_SECRET):
            expect_output(libraries.run(library, "iscsi-inq", url_of(target, own=own)), "Vendor:", f"with {library}")
        for url in (url_of(target, secret=WRONG), url_of(target, own=WRONG), target.url()):
            libraries.run(library, "iscsi-inq", url, status=INQ_FAILED)
    for url, words in ((url_of(target, secret=WRONG), "refuses the login"), (url_of(target, own=WRONG), "target")):
        expect_output(libraries.run(SKIFF, "iscsi-inq", url, status=INQ_FAILED), words, "in the error")


def check_environment(libraries, target):
    variables = {"LIBISCSI_CHAP_USERNAME": USER, "LIBISCSI_CHAP_PASSWORD": SECRET,
                 "LIBISCSI_CHAP_TARGET_USERNAME": TARGET_USER, "LIBISCSI_CHAP_TARGET_PASSWORD": OWN_SECRET}
    os.environ.update(variables)
    try:
        for library in (SKIFF, LIBISCSI):
            expect_output(libraries.run(library, "iscsi-inq", target.url()), "Vendor:", f"with {library}")
        os.environ["LIBISCSI_CHAP_TARGET_PASSWORD"] = WRONG
        for library in (SKIFF, LIBISCSI):
            libraries.run(library, "iscsi-inq", target.url(), status=INQ_FAILED)
    finally:
        for name in variables:
            del os.environ[name]


def check_functions(libraries, target, directory):
    program = pathlib.Path(directory, "chap")
    face.compile_c(program, HERE / "chap.c")
    for library in (SKIFF, LIBISCSI):
        for more in ((), (TARGET_USER, OWN_SECRET)):
            expect_output(libraries.run(library, program, target.url(), USER, SECRET, *more), "ready: status 0", f"with {library}")
        for credentials in ((USER, WRONG), ("nobody", SECRET), (USER, SECRET, TARGET_USER, WRONG),
                            (USER, SECRET, "another", OWN_SECRET)):
            expect_output(libraries.run(library, program, target.url(), *credentials, status=1), "", f"with {library}")


def check_discovery(libraries, target):
    for library in (SKIFF, LIBISCSI):
        output = libraries.run(library, "iscsi-ls", f"iscsi://{USER}%{SECRET}@{target.portal}")
        expect_output(output, target.name, f"with {library}")
    libraries.run(SKIFF, "iscsi-ls", f"iscsi://{USER}%{WRONG}@{target.portal}", status=INQ_FAILED)


def check_qemu(libraries, target, directory):
    """The password in the URL, or as a secret object in a file."""
    secret = pathlib.Path(directory, "qemu")
    for library in (SKIFF, LIBISCSI):
        output = libraries.run(library, "qemu-img", "info", "-f", "raw", url_of(target))
        # QEMU's own line shows what it was told.
        expect_output(re.sub(r"image: .*", "", output), "virtual size: 64 MiB", f"with {library}")
        for text, status, words in ((SECRET, 0, "virtual size: 64 MiB"), (WRONG, 1, target.name)):
            secret.write_text(text, encoding="utf-8")
            options = {"driver": "iscsi", "transport": "tcp", "portal": target.portal, "target": target.name, "lun": "0",
                       "user": USER, "password-secret": "s"}
            image = ",".join(f"{key}={value}" for key, value in options.items())
            output = libraries.run(library, "qemu-img", "info", "--object", f"secret,id=s,file={secret}", "--image-opts",
                                   image, status=status)
            expect_output(output, words if library == SKIFF or status == 0 else "", f"with {library}")


def main():
    skiffd, library, libskiff = sys.argv[1:]
    collected = cases.Cases("libiscsi_chap")
    with tempfile.TemporaryDirectory() as directory, PrivateSkiffd(skiffd, (), directory) as target:
        libraries = face.Libraries(directory, library, libskiff)
        collected.run("URLs", check_urls, libraries, target)
        collected.run("the environment", check_environment, libraries, target)
        collected.run("functions", check_functions, libraries, target, directory)
        collected.run("discovery", check_discovery, libraries, target)
        collected.run("QEMU", check_qemu, libraries, target, directory)
        expect_output(target.log(), "CHAP", "in skiffd's log")
    return collected.finish()


if __name__ == "__main__":
    sys.exit(main())
