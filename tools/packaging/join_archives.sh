#!/usr/bin/env bash
# Makes one archive of several. It has one object, so that a program gets all of it or nothing: also what nobody refers to,
# such as tests that register themselves. With --main, it has a second one: what has main().
#
#   join_archives.sh OUT ARCHIVE... [--main ARCHIVE]
set -euo pipefail

readonly OUT=$1
shift
work=$(mktemp -d)
trap 'rm -rf "${work}"' EXIT
objects=()

# Inline functions stay in groups, so that a program has each once.
join() {
  local object=$1
  shift
  ld -r -o "${work}/${object}" --whole-archive "$@" --no-whole-archive
  strip --strip-debug --remove-section=.comment "${work}/${object}"
  objects+=("${object}")
}

archives=()
while [[ $# -gt 0 && $1 != --main ]]; do
  archives+=("$1")
  shift
done
join all.o "${archives[@]}"
if [[ $# -gt 0 ]]; then join main.o "$2"; fi
rm -f "${OUT}"
(cd "${work}" && ar rcsD joined.a "${objects[@]}")
mv "${work}/joined.a" "${OUT}"
