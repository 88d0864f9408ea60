#!/usr/bin/env bash
# Runs the two embedding examples against each other, and holds them to the length
# that docs/embedding.md promises.
set -euo pipefail
serve=$1
read_lun=$2

for source in docs/examples/serve_ram_disk.cc docs/examples/read_lun.cc; do
  lines=$(wc -l < "$source")
  [ "$lines" -lt 60 ] || { echo "$source has $lines lines, not under 60"; exit 1; }
done

out=$(mktemp)
"$serve" tcp://127.0.0.1:0 > "$out" &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -f "$out"' EXIT
for _ in $(seq 100); do
  portal=$(sed -n 's|^serving .* at tcp://||p' "$out")
  [ -n "$portal" ] && break
  sleep 0.1
done
[ -n "$portal" ] || { echo "the server did not come up"; exit 1; }

got=$("$read_lun" "iscsi://$portal/iqn.2026-11.org.example:ram/0")
expected=$(head -c 1024 /dev/zero | tr '\0' '0')
[ "$got" = "$expected" ] || { echo "unexpected block: $got"; exit 1; }

if "$read_lun" "iscsi://$portal/iqn.2026-11.org.example:nothing/0" 2> "$out.err"; then
  echo "a target that does not exist was read"
  exit 1
fi
grep -qi "not found" "$out.err" || { echo "unclear error: $(cat "$out.err")"; exit 1; }

kill -TERM "$server"
wait "$server"
trap - EXIT
rm -f "$out" "$out.err"
echo "the examples work"
