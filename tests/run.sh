#!/bin/sh
# Run test programs that print TAP; show what failed; count.
# usage: tests/run.sh FILE, where each line is a shell command ('#': a comment).
# The last line is "N passed, N failed, N skipped"; exits 1 when something failed.
set -u
passed=0 failed=0 skipped=0
log=$(mktemp -d) || exit 1
trap 'rm -rf "$log"' EXIT
while IFS= read -r command; do
    case "$command" in ''|'#'*) continue ;; esac
    start=$(date +%s)
    # A test that hangs has failed.
    timeout 600 sh -c "$command" >"$log/out" 2>"$log/err" </dev/null
    code=$?
    # cmocka prints a skipped test as "not ok N # SKIP".
    sed -i -E 's/^not ok (.*# *skip)/ok \1/I' "$log/out"
    ok=$(grep -c '^ok ' "$log/out")
    skip=$(grep -ciE '^ok .*# *skip' "$log/out")
    bad=$(grep -c '^not ok ' "$log/out")
    # A program that died, or that ran nothing, failed, whatever it printed.
    if [ "$bad" = 0 ] && { [ "$code" != 0 ] || [ "$((ok + skip))" = 0 ]; }; then
        bad=1
        echo "not ok - $command: exit status $code, $ok tests" >>"$log/out"
    fi
    passed=$((passed + ok - skip)) failed=$((failed + bad)) skipped=$((skipped + skip))
    echo "$command: $((ok - skip)) passed, $bad failed, $skip skipped ($(($(date +%s) - start)) s)"
    if [ "$bad" != 0 ]; then
        grep -A12 '^not ok ' "$log/out" | cut -c1-400 | head -80
        tail -40 "$log/err" | cut -c1-400
    fi
done <"$1"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
