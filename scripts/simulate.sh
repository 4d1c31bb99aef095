#!/usr/bin/env bash
# Simulates whole clients under faults, in fake time: the seeds SEEDS, or CI's 4 hours of traffic.
# SEEDS=1000-1999 is a range; SEEDS=7 replays that seed and prints its history. With NODES=3, or 5,
# the clients are those of a quorum. Needs no server. Arguments go to go test.
. "$(dirname "$0")/lib.sh"
export SIMULATE_SEEDS=${SEEDS:-} SIMULATE_NODES=${NODES:-}
name=TestWholeClientsKeepTheInvariantsThroughAllFaults room=./test/simulate
if [ -n "${NODES:-}" ]; then
	name=TestWholeClientsOfAQuorumKeepTheInvariantsThroughAllFaults room=./test/simulate/majority
fi
status=0
go test -run "^$name\$" -v -count=1 -timeout 24h "$@" "$room" |
	grep -vE '^ *(===|--- PASS)' || status=${PIPESTATUS[0]}
exit "$status"
