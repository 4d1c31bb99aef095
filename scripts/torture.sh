#!/usr/bin/env bash
# Tortures six worker processes on a real server for FOR (60s), with the race detector, and prints
# the totals. SEED repeats the saboteur's choices of an earlier run. After that the last keys take a
# minute to vanish.
#
# NODES=3 tortures four workers on a quorum of so many servers instead.
#
# Arguments go to go test, for example -count=5. Those after -args go to the test: -args -keep DIR
# keeps the journals of the workers and of the server.
. "$(dirname "$0")/lib.sh"
use_redis
export FAIRLOCK_REQUIRE_REDIS=1
race=-race
go list -race errors >/dev/null 2>&1 || race=
whom='^TestWhateverIsDoneToThem'
[ -z "${NODES:-}" ] || whom='^TestWhateverIsDoneToItsNodes'
# shellcheck disable=SC2086 # no race detector is no argument
go test $race -count=1 -timeout 24h -v -run "$whom" ./test/torture "-torture=${FOR:-60s}" "-majority=${FOR:-60s}" \
	"-nodes=${NODES:-3}" ${SEED:+"-seed=$SEED"} "$@"
