#!/usr/bin/env bash
# Run the named findings (all, if none is named), one at a time, each in an empty folder of its own.
# Print one line for each: "ok" if its behaviour is still as described, otherwise its last line.
cd "$(dirname "$0")" || exit 2
[ $# -gt 0 ] || set -- $(ls -- *.sh | grep -v '^run\.sh$')
failed=0
for script; do
    name=$(basename "$script" .sh)
    if output=$(nice bash "$name.sh" 2>&1); then
        echo "ok       $name"
    else
        echo "CHANGED  $name: $(tail -n 1 <<<"$output")"
        failed=1
    fi
done
exit $failed
