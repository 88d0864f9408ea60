"""Tests that run in a virtual machine with RDMA devices (docs/testing-in-a-vm.md)."""

# They are for `testing/run vm`, or --test_tag_filters=vm.
VM_TEST_TAGS = [
    "local",
    "vm",
]

# One guest at a time: each takes two processors.
ALONE = ["exclusive"]

# Two of these at a time.
BESIDE_OTHERS = ["cpu:1"]

def skiff_vm_test(
        name,
        program,
        args = [],
        data = [],
        device = "both",
        options = [],
        peer_command = None,
        size = "medium",
        alone = True,
        tags = [],
        **kwargs):
    """A test that runs a program in a guest, and succeeds if that does.

    The XML report of a GoogleTest program is the test's: each case counts. A program that is a test itself also runs
    outside of the guest, unless it has the tag "manual"; one that needs a device is rather a cc_binary.

    Args:
      name: the target's name.
      program: a cc_binary, cc_test or other executable target.
      args: the program's arguments, with $(rootpath ...) of targets in data.
      data: what else the program needs when it runs.
      device: "roce", "iwarp", "both" or "none".
      options: more options of testing/vm/run, such as "--memory=8G".
      peer_command: if given, there are two hosts, and bash runs this on the second one, with $(rootpath ...) of the
        program and of targets in data. No single quotes.
      size: as for cc_test. Starting the guest takes about five seconds.
      alone: False if it is short and waits for nothing that another guest could make late.
      tags: more tags than VM_TEST_TAGS.
      **kwargs: passed on to sh_test.
    """
    peer = []
    if peer_command != None:
        peer = ["--hosts=2", "--peer-command='%s'" % peer_command]
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//testing/vm:test_in_vm"],
        args = ["--device=" + device] + peer + options + ["--", "$(rootpath %s)" % program] + args,
        data = data + [
            program,
            "//testing/vm:runner",
        ],
        tags = VM_TEST_TAGS + (ALONE if alone else BESIDE_OTHERS) + tags,
        **kwargs
    )
