#!/usr/bin/env bash
# Makes one archive of several: with what they need of Debian's Abseil, and with skiff_* as its only global symbols. A host
# may then have another Abseil, and functions of any other name.
#
#   merge_archives.sh OUT ARCHIVE...
#
# Debian compiles the archives of Abseil for programs: so the archive that is made is for programs, too, and not for
# shared objects.
set -euo pipefail

readonly OUT=$1
shift
work=$(mktemp -d)
trap 'rm -rf "${work}"' EXIT

# Groups are dissolved, so that no linker takes a host's copy of an inline function for ours.
ld -r --force-group-allocation -o "${work}/all.o" --whole-archive "$@" --no-whole-archive \
  --start-group "$(dirname "$(gcc -print-file-name=libabsl_base.a)")"/libabsl_*.a --end-group
llvm-objcopy-14 --strip-debug --wildcard --keep-global-symbol='skiff_*' "${work}/all.o" "${work}/skiff.o"
rm -f "${OUT}"
(cd "${work}" && ar rcsD libskiff.a skiff.o)
mv "${work}/libskiff.a" "${OUT}"
