"""Fuzz targets: libFuzzer binaries under --config=fuzz, tests of the checked-in corpus everywhere else."""

load("@rules_cc//cc:defs.bzl", "cc_test")

def skiff_fuzz_test(name, srcs, corpus, deps = [], runs = 100000, max_len = 4096, size = "medium", **kwargs):
    """A test of a LLVMFuzzerTestOneInput() that `srcs` define.

    In every configuration but one it feeds each file of the corpus to that function once. Under --config=fuzz
    it is the libFuzzer binary and tries `runs` inputs, always the same ones. To search for longer:

        bazel test --config=fuzz --test_timeout=3600 --test_arg=-runs=-1 --test_arg=-seed=0 \
            --test_arg=-max_total_time=3000 //path:target

    What breaks it is left in the target's test.outputs under bazel-testlogs; fixed, it belongs into the corpus.

    Args:
      name: the target's name.
      srcs: sources, one of which defines LLVMFuzzerTestOneInput().
      corpus: a directory, relative to the package, with at least one input.
      deps: as for cc_test.
      runs: how many inputs --config=fuzz tries.
      max_len: the length in bytes of the longest input that --config=fuzz makes.
      size: as for cc_test.
      **kwargs: passed on to cc_test.
    """
    directory = native.package_name() + "/" + corpus
    cc_test(
        name = name,
        size = size,
        testonly = True,
        srcs = srcs,
        args = select({
            "//tools/bazel:fuzzing": [
                directory,
                "-runs=%d" % runs,
                "-max_len=%d" % max_len,
                "-seed=1",
                "-timeout=10",
            ],
            "//conditions:default": [directory],
        }),
        data = native.glob([corpus + "/**"], allow_empty = False) + ["//tools/bazel:run_sanitized"],
        linkopts = select({
            "//tools/bazel:fuzzing": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        tags = ["fuzz"],
        deps = deps + select({
            "//tools/bazel:fuzzing": [],
            "//conditions:default": ["//tools/bazel:fuzz_replay_main"],
        }),
        **kwargs
    )
