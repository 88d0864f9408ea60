"""The repositories that Skiff's BUILD files name, for its own WORKSPACE and for others'.

Everything comes from Debian's packages (tools/install-deps): a build downloads nothing.
"""

# In any workspace, the folder of this file.
def _here(ctx):
    return ctx.path(Label("//tools/bazel:deps.bzl")).dirname

def _folder_impl(ctx):
    for entry in _here(ctx).get_child(ctx.attr.folder).readdir():
        ctx.symlink(entry, entry.basename)

_folder_repository = repository_rule(
    doc = "A folder beside this file.",
    implementation = _folder_impl,
    attrs = {"folder": attr.string(mandatory = True)},
    local = True,
)

def _system_impl(ctx):
    ctx.symlink(_here(ctx).get_child("system.BUILD"), "BUILD.bazel")

_system_repository = repository_rule(
    doc = "The libraries that Skiff links with: what to link. Their headers are in the compiler's own search path.",
    implementation = _system_impl,
    local = True,
)

def skiff_deps():
    """Makes the repositories, but for those that the workspace has already.

    In a workspace of another name, Skiff's repository is called "skiff".
    """

    # Those that Bazel itself expects, and would otherwise download. Debian's bazel-rules-cc is too new for Debian's Bazel,
    # and nothing packages remote_coverage_tools, so small stand-ins take their places.
    for name in ["rules_cc", "remote_coverage_tools"]:
        if not native.existing_rule(name):
            _folder_repository(name = name, folder = name)
    for name, path in {
        "rules_java": "/usr/share/bazel/rules/java",
        "rules_proto": "/usr/share/bazel/rules/proto",
        "bazel_skylib": "/usr/share/bazel/tools/skylib",
    }.items():
        if not native.existing_rule(name):
            native.local_repository(name = name, path = path)
    if not native.existing_rule("system"):
        _system_repository(name = "system")
