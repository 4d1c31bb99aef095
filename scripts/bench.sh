#!/usr/bin/env bash
# Measures Fairlock beside its peers (see docs/performance.md) and writes tables, plots and the
# measured parts of that document. Arguments go to the program, for example -workloads handover
# -peers fairlock,baton -repeats 3. With -quick it writes nothing.
. "$(dirname "$0")/lib.sh"
use_redis || {
	loud "No redis-server: there is nothing to measure on."
	exit 1
}
write=(-out docs/performance -docs docs/performance.md)
for arg; do
	case $arg in -quick | --quick) write=() ;; esac
done
program=$(mktemp -d)
trap 'rm -rf "$program"' EXIT
go build -o "$program/bench" ./bench
"$program/bench" ${write[@]+"${write[@]}"} "$@"
