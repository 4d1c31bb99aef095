#!/usr/bin/env bash
# Proves whole what make test proves a part of: all states that the explorers can come to, all
# mutations of their rules, and a day of simulated traffic. It takes half an hour. Needs no server.
. "$(dirname "$0")/lib.sh"
status=0
PROVE=all go test -v -count=1 -timeout 24h ./test/explore ./test/majority |
	grep -vE '^ *(===|--- PASS)' || status=${PIPESTATUS[0]}
SEEDS=1-100 scripts/simulate.sh || status=$?
NODES=3 SEEDS=1-20 scripts/simulate.sh || status=$?
exit "$status"
