#!/usr/bin/env bash
# Runs every fuzz test in turn, each for FUZZTIME (30s). go test can fuzz only one at a time.
. "$(dirname "$0")/lib.sh"
for dir in $(packages_with Fuzz); do
	for name in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | cut -d ' ' -f 2); do
		echo "== $dir $name"
		go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-30s}" "$@" "$dir"
	done
done
