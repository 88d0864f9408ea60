#!/usr/bin/env bash
# library_bench measures all works by both interfaces, and keeps the samples.
set -euo pipefail
kept=${TEST_TMPDIR}/run.json
"$1" --rounds=1 --seconds=0.01 --json="${kept}" > "${TEST_TMPDIR}/table" || [[ $? -eq 1 ]]
lines=$(wc -l < "${TEST_TMPDIR}/table")
[[ ${lines} -eq 12 ]] || { cat "${TEST_TMPDIR}/table"; exit 1; }
grep -q '"read 4 KiB, 32 at once: C, linked": \[' "${kept}"
