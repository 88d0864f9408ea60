#!/usr/bin/env bash
# The program that an author gets by linking his transport with
# //testing/transport_conformance:main says what it can do and what it did.
set -euo pipefail
program=$1
unset XML_OUTPUT_FILE

fail() {
  printf '%s\n' "$*"
  exit 1
}

expect() {
  grep -qF -- "$1" <<< "$2" || fail "\"$1\" is not in: $2"
}

help=$("$program" --help)
expect "inproc" "$help"
expect "--json" "$help"

some=$("$program" '--gtest_filter=*TransportTest*')
expect "0 failed, 0 declared not supported" "$some"
expect "tests by a filter" "$some"
expect "left out: the tests of RDMA endpoints" "$some"

if "$program" --no-such-option > /dev/null 2>&1; then fail "an unknown option was taken"; fi
echo "the program says what it did"
