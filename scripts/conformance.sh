#!/usr/bin/env bash
# Tests what every server must do on one server: the program in REDIS_SERVER, or one on the PATH.
# The last line of the output is a row of docs/compatibility.md.
. "$(dirname "$0")/lib.sh"
export FAIRLOCK_REQUIRE_REDIS=1
use_redis || {
	echo "there is no redis-server to look at" >&2
	exit 1
}

status=0
row="| $("$REDIS_SERVER" --version | sed 's/ server v=\([^ ]*\).*/ \1/') |"

# column runs tests and prints one word for the row.
column() {
	local word=passed
	go test -count=1 -timeout 10m "$@" || { word=FAILED status=1; }
	row+=" $word |"
}

column -run 'LockOnARealServer$' ./test/conformance # the suite: the fair and the plain lock
complaint=$("$REDIS_SERVER" --port 0 --tls-port 1 2>&1) || true # the server ends at once, because it has no certificate
case $complaint in
*tls-cert-file*) column -run 'OverTLSOnARealServer$' ./test/conformance ;;
*) row+=" built without |" ;;
esac
column ./lua ./pubsub # the scripts, which may touch only declared keys; the subscription
column ./test/faults # lost answers, cut connections, restarts, lost data, full memory, missing rights
printf '\n%s\n' "$row"
exit "$status"
