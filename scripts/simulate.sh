#!/usr/bin/env bash
# Simulates whole clients under faults, in fake time: the seeds SEEDS, or CI's 25 hours of traffic.
# SEEDS=1000-1999 is a range; SEEDS=7 replays that seed and prints its history. Needs no server.
# Arguments go to go test.
. "$(dirname "$0")/lib.sh"
export SIMULATE_SEEDS=${SEEDS:-}
status=0
go test -run '^TestWholeClientsKeepTheInvariantsThroughAllFaults$' -v -count=1 -timeout 24h "$@" ./test/simulate |
	grep -vE '^ *(===|--- PASS)' || status=${PIPESTATUS[0]}
exit "$status"
