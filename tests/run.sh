#!/bin/sh
# Run test programs that print TAP; show what failed; count.
# usage: tests/run.sh FILE [JOBS], where each line is a shell command ('#': a comment).
#
# JOBS of them (2) run at a time; those after a line "alone" run one by one, when all others have ended.
# Each has a TMPDIR of its own.  Reports come in the order of the list, each whole.
# The last line is "N passed, N failed, N skipped"; exits 1 when something failed.
set -u
unset MAKEFLAGS # a test's own make has jobs of its own
# One command, by its number: what it printed into DIR/N.report, its counts into DIR/N.counts.
if [ "$1" = --one ]; then
    dir=$2 n=$3
    command=$(sed -n "${n}p" "$dir/list")
    out=$dir/$n.out err=$dir/$n.err
    mkdir "$dir/$n.tmp"
    start=$(date +%s)
    # A test that hangs has failed.
    TMPDIR=$dir/$n.tmp timeout 600 sh -c "$command" >"$out" 2>"$err" </dev/null
    code=$?
    seconds=$(($(date +%s) - start))
    rm -rf "$dir/$n.tmp"
    # cmocka prints a skipped test as "not ok N # SKIP".
    sed -i -E 's/^not ok (.*# *skip)/ok \1/I' "$out"
    ok=$(grep -c '^ok ' "$out")
    skip=$(grep -ciE '^ok .*# *skip' "$out")
    bad=$(grep -c '^not ok ' "$out")
    # A program that died, or that ran nothing, failed, whatever it printed.
    if [ "$bad" = 0 ] && { [ "$code" != 0 ] || [ "$((ok + skip))" = 0 ]; }; then
        bad=1
        echo "not ok - $command: exit status $code, $ok tests" >>"$out"
    fi
    {
        echo "$command: $((ok - skip)) passed, $bad failed, $skip skipped ($seconds s)"
        if [ "$bad" != 0 ]; then
            grep -A12 '^not ok ' "$out" | cut -c1-400 | head -80
            tail -40 "$err" | cut -c1-400
        fi
    } >"$dir/$n.report"
    echo "$((ok - skip)) $bad $skip" >"$dir/$n.counts"
    rm -f "$out" "$err"
    echo "$n"
    exit 0
fi

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
sed -e '/^ *$/d' -e '/^#/d' "$1" >"$dir/list"
total=$(wc -l <"$dir/list")
alone=$(awk '$0 == "alone" { print NR; exit }' "$dir/list")
[ -n "$alone" ] || alone=$((total + 1))
{
    seq 1 $((alone - 1)) | xargs -r -n 1 -P "${2:-2}" "$0" --one "$dir"
    seq $((alone + 1)) "$total" | xargs -r -n 1 "$0" --one "$dir"
} | {
    passed=0 failed=0 skipped=0 next=1
    while read -r _; do
        [ $next != "$alone" ] || next=$((next + 1))
        while [ -f "$dir/$next.counts" ]; do
            cat "$dir/$next.report"
            read -r p f s <"$dir/$next.counts"
            passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s)) next=$((next + 1))
        done
    done
    # One that was not run to its end, whatever ended it.
    for n in $(seq $next "$total"); do
        [ "$n" != "$alone" ] && [ ! -f "$dir/$n.counts" ] || continue
        failed=$((failed + 1))
        echo "not ok - $(sed -n "${n}p" "$dir/list"): its run left no counts"
    done
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}
