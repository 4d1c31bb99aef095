#!/usr/bin/env bash
# Runs every fuzz test in turn, each for FUZZTIME (30s). go test can fuzz only one at a time.
. "$(dirname "$0")/lib.sh"
for dir in $(packages_with Fuzz); do
	for name in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | cut -d ' ' -f 2); do
		echo "== $dir $name"
		# Without a bound, go test would shorten an input that is merely new for up to a minute.
		go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-30s}" -fuzzminimizetime 20x "$@" "$dir"
	done
done
