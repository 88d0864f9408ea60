#!/usr/bin/env bash
# Runs the examples against each other, and holds those that
# docs/embedding.md calls short to the length that it promises.
set -euo pipefail
serve=$1
read_lun=$2
own_storage=$3
discover=$4
skiff=$5
c_read_lun=$6
c_event_loop=$7
c_own_storage=$8
own_medium=$9
read_disk=${10}
chap_target=${11}

fail() {
  printf '%s\n' "$*"
  exit 1
}

# at_most LINES SOURCE
at_most() {
  local lines
  lines=$(wc -l < "docs/examples/$2")
  [ "$lines" -le "$1" ] || fail "$2 has $lines lines, more than $1"
}
at_most 30 own_medium.cc
at_most 15 read_disk.cc
at_most 59 serve_ram_disk.cc
at_most 59 read_lun.cc

dir=$(mktemp -d)
servers=()
trap 'kill "${servers[@]}" 2>/dev/null || true; rm -rf "$dir"' EXIT

# Waits until a line of a file matches, and prints what the expression captures.
await() {
  local expression=$1 file=$2 found
  for _ in $(seq 300); do
    found=$(sed -nE "s|^$expression\$|\\1|p" "$file")
    [ -n "$found" ] && break
    sleep 0.1
  done
  [ -n "$found" ] || return 1
  printf '%s\n' "$found"
}

# A RAM disk, and its first block.
"$serve" tcp://127.0.0.1:0 > "$dir/ram" &
servers+=($!)
portal=$(await 'serving .* at tcp://(.*)' "$dir/ram") || fail "the server did not come up"

got=$("$read_lun" "iscsi://$portal/iqn.2026-11.org.example:ram/0")
expected=$(head -c 1024 /dev/zero | tr '\0' '0')
[ "$got" = "$expected" ] || fail "unexpected block: $got"

if "$read_lun" "iscsi://$portal/iqn.2026-11.org.example:nothing/0" 2> "$dir/error"; then
  fail "a target that does not exist was read"
fi
grep -qi "not found" "$dir/error" || fail "unclear error: $(cat "$dir/error")"

# The same in C, and all of it from a loop of the program's own.
url=iscsi://$portal/iqn.2026-11.org.example:ram/0
got=$("$c_read_lun" "$url")
[ "$got" = "$((64 << 20))"$'\n'"$expected" ] || fail "unexpected block in C: $got"
if "$c_read_lun" "${url/ram/nothing}" 2> "$dir/error"; then
  fail "a target that does not exist was read in C"
fi
grep -qi "not found" "$dir/error" || fail "unclear error in C: $(cat "$dir/error")"
head -c 1000000 /dev/urandom > "$dir/image"
truncate --size=1000448 "$dir/image"
"$skiff" copy "$dir/image" "$url"
"$c_event_loop" "$url" > "$dir/all"
[ "$(stat -c %s "$dir/all")" = "$((64 << 20))" ] || fail "not all of it was read"
cmp --bytes=1000448 "$dir/image" "$dir/all"
if "$c_event_loop" "iscsi://$portal/iqn.2026-11.org.example:ram/9" 2> "$dir/error"; then
  fail "a LUN that does not exist was read"
fi

# Its name, over what auto:// chooses.
got=$("$discover" "auto://$portal" 2> "$dir/choice")
[ "$got" = iqn.2026-11.org.example:ram ] || fail "discovered: $got"
grep -q "tcp" "$dir/choice" || fail "no report of the choice: $(cat "$dir/choice")"

kill -TERM "${servers[0]}"
wait "${servers[0]}"

# The short ones: by two portals at once.
mkfifo "$dir/end"
"$own_medium" tcp://127.0.0.1:0 auto://127.0.0.1:0 < "$dir/end" > "$dir/medium" 2> "$dir/medium.log" &
short=$!
servers+=("$short")
exec 4> "$dir/end"
portal=$(await 'serving at tcp://(.*)' "$dir/medium") || fail "own_medium did not come up: $(cat "$dir/medium.log")"
url=iscsi://$portal/iqn.2026-11.org.example:medium/0
head -c 1048576 /dev/urandom > "$dir/image"
"$skiff" copy "$dir/image" "$url" --verify
"$read_disk" "$url" > "$dir/block"
[ "$(stat -c %s "$dir/block")" = 4096 ] || fail "not 4096 bytes: $(stat -c %s "$dir/block")"
cmp --bytes=4096 "$dir/image" "$dir/block"
if "$read_disk" "${url/medium/nothing}" 2> "$dir/error"; then
  fail "a target that does not exist was read in C++"
fi
grep -qi "not found" "$dir/error" || fail "unclear error in C++: $(cat "$dir/error")"
exec 4>&-
wait "$short"
grep -q "logged in" "$dir/medium.log" || fail "no line of own_medium's log: $(cat "$dir/medium.log")"

# One that asks who logs in.
mkfifo "$dir/users"
"$chap_target" tcp://127.0.0.1:0 client < "$dir/users" > "$dir/chap" &
servers+=($!)
asking=$!
exec 5> "$dir/users"
echo "a-secret-of-the-test" >&5
portal=$(await 'serving at tcp://(.*)' "$dir/chap") || fail "chap_target did not come up"
path=iqn.2026-11.org.example:chap/0
"$read_disk" "iscsi://client%a-secret-of-the-test@$portal/$path" > "$dir/block"
[ "$(stat -c %s "$dir/block")" = 4096 ] || fail "not 4096 bytes by CHAP"
for user in "" client%another-secret-of-it@ nobody%a-secret-of-the-test@; do
  if "$read_disk" "iscsi://$user$portal/$path" > /dev/null 2>&1; then fail "\"$user\" was let in"; fi
done
exec 5>&-
wait "$asking"

# Storage that changes while it is served.
mkfifo "$dir/commands"
"$own_storage" tcp://127.0.0.1:0 < "$dir/commands" > "$dir/own" 2> "$dir/log" &
own=$!
servers+=("$own")
exec 3> "$dir/commands"
portal=$(await 'serving .* at tcp://(.*)' "$dir/own") || fail "own_storage did not come up: $(cat "$dir/log")"
url=iscsi://$portal/iqn.2026-11.org.example:own

head -c 1048576 /dev/urandom > "$dir/image"
"$skiff" copy "$dir/image" "$url/0" --verify
"$skiff" copy "$url/0" "$dir/back" --length 1MiB
cmp "$dir/image" "$dir/back"

before=$("$skiff" capacity "$url/0")
echo grow >&3
await '(grow: OK)' "$dir/own" > /dev/null || fail "did not grow: $(cat "$dir/own")"
[ "$before" != "$("$skiff" capacity "$url/0")" ] || fail "still has the old capacity: $before"

"$read_lun" "$url/1" > /dev/null
echo remove >&3
await '(remove: OK)' "$dir/own" > /dev/null || fail "nothing was removed: $(cat "$dir/own")"
if "$read_lun" "$url/1" 2> /dev/null; then fail "a LUN that was removed was read"; fi

# Storage of one's own in C.
"$c_own_storage" tcp://127.0.0.1:0 > "$dir/c" &
servers+=($!)
portal=$(await 'serving .* at tcp://(.*)' "$dir/c") || fail "c_own_storage did not come up"
c_url=iscsi://$portal/iqn.2026-11.org.example:c/0
"$skiff" copy "$dir/image" "$c_url" --verify
"$c_read_lun" "$c_url" > /dev/null
kill -TERM "${servers[-1]}"
wait "${servers[-1]}"

exec 3>&-
wait "$own"
grep -q "logged in" "$dir/log" || fail "no line of the log came: $(cat "$dir/log")"
echo "the examples work"
