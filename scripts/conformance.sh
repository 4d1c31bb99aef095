#!/usr/bin/env bash
# What a server must do, tried on one: the program in REDIS_SERVER, or one on the PATH. Its last line is a row of
# docs/compatibility.md.
. "$(dirname "$0")/lib.sh"
export FAIRLOCK_REQUIRE_REDIS=1
use_redis || {
	echo "there is no redis-server to look at" >&2
	exit 1
}

status=0
row="| $("$REDIS_SERVER" --version | sed 's/ server v=\([^ ]*\).*/ \1/') |"

# column runs tests, for a word in the row.
column() {
	local word=passed
	go test -count=1 -timeout 10m "$@" || { word=FAILED status=1; }
	row+=" $word |"
}

column -run 'LockOnARealServer$' ./test/conformance # the suite: the fair and the plain lock
complaint=$("$REDIS_SERVER" --port 0 --tls-port 1 2>&1) || true # it ends at once: there is no certificate
case $complaint in
*tls-cert-file*) column -run 'OverTLSOnARealServer$' ./test/conformance ;;
*) row+=" built without |" ;;
esac
column ./lua ./pubsub # the scripts, which touch no key but those declared; the subscription
column ./test/faults # lost answers, cut connections, restarts, lost data, full memory, missing rights
printf '\n%s\n' "$row"
exit "$status"
