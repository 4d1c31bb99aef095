#!/usr/bin/env bash
# Runs the benchmarks whose names match BENCH (all), on a real server. Arguments go to go test, for
# example -count=10.
. "$(dirname "$0")/lib.sh"
use_redis || loud "No redis-server: benchmarks that need one are left out."
# shellcheck disable=SC2046 # one word per package
go test -run '^$' -bench "${BENCH:-.}" -benchmem -timeout 30m "$@" $(packages_with Benchmark)
