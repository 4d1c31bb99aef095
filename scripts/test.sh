#!/usr/bin/env bash
# Tests every module: gofmt, and go test, most of it with the race detector. go vet is part of make
# lint. Arguments go to go test, for example -run Name -v.
#
# The tests need a redis-server: REDIS_SERVER, or one on the PATH, or Debian's, which is installed
# if that needs no question. Without a redis-server, the tests run on the embedded server only, and
# the output names what was skipped. With FAIRLOCK_REQUIRE_REDIS=1, as in CI, a missing server is a
# failure.
. "$(dirname "$0")/lib.sh"
sooner

missing=()
if ! use_redis; then
	if [ "${FAIRLOCK_REQUIRE_REDIS:-}" = 1 ]; then
		echo "FAIRLOCK_REQUIRE_REDIS=1, but there is no redis-server to test against" >&2
		exit 1
	fi
	export REDIS_SERVER=no-redis-server # else the tests would take an old one on the PATH
	missing+=("Not shown: how the library behaves on a real server, with real processes, broken"
		"connections, crashes. There is no redis-server 7.0 (or Valkey 7.2) or newer on the"
		"PATH or in REDIS_SERVER. The tests run on the embedded server only.")
fi

find_postgres || loud "Not shown: the example seckill on PostgreSQL. There is none on the PATH, in" \
	"/usr/lib/postgresql or in POSTGRES_URL. It is tested with SQLite only."

find_chromium || loud "Not shown: what the page of fairlock web does in a browser. There is no chromium on the" \
	"PATH. What the page is made of is tested all the same."

if ! find_java; then
	if [ "${FAIRLOCK_REQUIRE_JAVA:-}" = 1 ]; then
		echo "FAIRLOCK_REQUIRE_JAVA=1, but there is no JDK, or no Maven, on the PATH" >&2
		exit 1
	fi
	loud "Not shown: how the real Redisson behaves in one line with ours. There is no java, javac or" \
		"mvn on the PATH (Debian: default-jdk-headless and maven). Its tests are skipped."
fi

race=-race
if ! go list -race errors >/dev/null 2>&1; then
	race=
	missing+=("Not shown: that there are no data races. Go's race detector needs a C compiler and"
		"CGO_ENABLED=1 here.")
fi
[ ${#missing[@]} = 0 ] || loud "${missing[@]}"

unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
	printf 'not formatted, run make fmt:\n%s\n' "$unformatted" >&2
	exit 1
fi

# The library, its tool and its extras are tested with the race detector. The guests that bring
# databases, gRPC and other locks are not: building those twice takes minutes, and our own code in
# them is short.
heavy='/locks/(bench|docs|examples|scripts|integrations/grpclock)(/|$)'
light=$(go list work | grep -vE "$heavy") # one word per package
guests=$(go list work | grep -E "$heavy")
# The compiler and the tests may have five times the memory that they use: that saves a sixth of what
# the compiler computes and a tenth of what the tests do.
export GOGC=400
# The race detector would keep each process for a second at its end, for what then still runs. That
# is nothing: the tests look for goroutines that are left.
export GORACE=atexit_sleep_ms=0

# The race detector makes code three times as dear. So some packages are tested without it, and then
# a sample of their tests with it: the scripts, which run in a Lua that nobody but tests uses; what
# differs by its servers or its processes, but not by our code; the conformance of each kind of lock
# on each server; the quorum; the whole tool, whose packages are tested one by one as well. With
# arguments, as in ARGS='-run .', all have the race detector.
plain='/locks/(lua|quorum|cmd/fairlock|test/(conformance|processes|topologies))$'

# All that the tests need is compiled before they begin, on all cores: leases are short in some.
# shellcheck disable=SC2086
go list $race -test -export $light >/dev/null
# shellcheck disable=SC2046
go list -test -export $(echo "$light" | grep -E "$plain") >/dev/null

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
trap 'trap "" TERM; kill 0; exit 130' INT # commands that a script runs in the background do not hear Ctrl-C
logged() { "$@" 2>&1 | tee "$(mktemp "$logs/XXXXXX")"; }

# Tests of how soon something happens have priority over everything that computes, if the user may
# set that. At equal priority, a sleeping process was seen to wake up a second late, on two cores
# with too much to do.
first=() # bash 3.2, as of macOS, takes an empty array for one that is not set
[ "$(nice -n -10 nice 2>/dev/null)" != -10 ] || first=(nice -n -10)

test_all() {
	# One package at a time. Only what is named further down runs beside tests of how soon something
	# happens.
	logged ${first[@]+"${first[@]}"} go test $race -vet=off -p 1 -count=1 -shuffle=on "$@"
}

# Where a run mostly waits, others run beside it; each has its own servers. What computes does so at
# the lowest priority, so the others hardly notice it.

# packages prints the packages of the library, its tool and their tests that match $1 and not $2.
packages() { echo "$light" | grep -E "$1" | grep -vE "${2:-^$}"; }

# prove runs the explorers and the simulations: all without the race detector, then samples of the
# simulations with it.
# Each says itself how much memory it may have.
proven=(./test/explore ./test/majority ./test/simulate ./test/simulate/majority)
prove() {
	local status=0
	local -x GODEBUG=adaptivestackstart=1 # a goroutine's first stack is as large as most have become
	logged nice -n 19 go test -vet=off -count=1 -timeout 30m "${proven[@]}" || status=$?
	logged nice -n 19 go test $race -vet=off -count=1 -timeout 30m ./test/simulate ./test/simulate/majority || status=$?
	return "$status"
}

# in_turn runs the commands one after the other, even if some fail.
in_turn() {
	local status=0 run
	for run in "$@"; do
		$run || status=$?
	done
	return "$status"
}

# beside runs the commands side by side.
beside() {
	local status=0 all=() run
	for run in "$@"; do
		$run &
		all+=($!)
	done
	for run in "${all[@]}"; do
		wait "$run" || status=$?
	done
	return "$status"
}

# The packages with a place of their own below. Those in quiet mostly wait.
quiet='/(pubsub|test/(redistest|faultproxy|workers|operators))$'
named="$quiet|$plain|/test/(explore|majority|simulate(/majority)?|faults|torture|java|interop)\$"
# Each test of faults looks for goroutines that are left, so it runs alone in its process. There are
# three processes.
faults() { test_all -run '^TestA[A-L]' ./test/faults; }
more_faults() { test_all -run '^TestA[M-Z]' ./test/faults; }
other_faults() { test_all -skip '^TestA[A-Z]' ./test/faults; }
# shellcheck disable=SC2046
still() { test_all $(packages "$quiet"); }
processes() { race='' test_all -parallel 4 ./test/processes; }
topologies() {
	race='' test_all -parallel 4 ./test/topologies && test_all -run Whatever ./test/topologies
}
java() { test_all -parallel 4 ./test/java ./test/interop; }
torture() { test_all ./test/torture; } # ends with a minute of waiting for keys to vanish
# shellcheck disable=SC2046
rooms() {
	race='' test_all -parallel 4 ./test/conformance && test_all -run FairLockOnTheEmbedded ./test/conformance &&
		test_all -parallel 4 $(packages '/test/|/locks$' "$named")
}
# shellcheck disable=SC2046
floors() { test_all $(packages . "$quiet|/test/|/cmd/|/locks\$|$plain"); }
scripts() {
	race='' test_all ./lua ./quorum && test_all -run 'Request|Together|AtOnce|Masters|Slots' ./lua &&
		test_all -run 'Herd|Hook|Close|Context' ./quorum
}
# shellcheck disable=SC2046
tool() {
	race='' test_all ./cmd/fairlock && test_all -run 'Trials/.*lost' ./cmd/fairlock
}
# shellcheck disable=SC2046
rooms_of_tool() { test_all $(packages /cmd/ "$plain"); }
# None of the guests tests how soon something happens: two at a time. On a fresh machine they compile
# for minutes, which has priority over nothing that is tested.
# shellcheck disable=SC2046,SC2086
guests() {
	go list -test -export $guests >/dev/null
	race='' test_all -p 2 $(echo "$guests" | grep -v '/scripts/release$')
}
# released makes a release and builds all from it, as a stranger does: minutes of computing.
released() { logged nice -n 19 go test -vet=off -count=1 ./scripts/release; }

# Six groups that take about as long as each other.
torturing() { in_turn torture java; }
building() { in_turn floors guests; }
scripting() { in_turn scripts rooms_of_tool; }
processing() { in_turn processes tool; } # the tool late: some of its leases are short

if [ ${#missing[@]} = 0 ]; then
	if [ $# != 0 ]; then
		test_all "$@" work
		exit
	fi
	status=0
	in_turn prove released &
	proving=$!
	beside faults more_faults other_faults still || status=$? # first and alone: leases of less than a second are at stake
	beside processing topologies torturing building scripting rooms || status=$?
	wait "$proving" || status=$?
	if [ "$status" != 0 ]; then # the failures were printed somewhere among all that ran
		loud "What failed:"
		cat "$logs"/* | grep -E '^( *--- FAIL|    |panic:|fatal error:|WARNING: DATA RACE|FAIL)'
	fi
	exit "$status"
fi

# failures prints the part of the log that belongs to failed tests.
failures() {
	awk 'function flush() { if (bad) printf "%s", text; text = ""; bad = 0 }
		/^=== RUN +[^\/]+$/ { flush() }
		/^(ok|PASS)/ { flush(); next }
		/^(--- FAIL|panic|FAIL)/ { bad = 1 }
		{ text = text $0 "\n" }
		END { flush() }' "$logs"/*
}

# With -v the output has what was skipped. grep shows what go test prints without -v.
status=0
test_all -v "$@" work | grep -E '^(ok|FAIL|--- FAIL|panic)' || status=${PIPESTATUS[0]}
[ "$status" = 0 ] || failures
echo "Skipped:"
sed -n 's/^--- SKIP: \([^ ]*\).*/  \1/p' "$logs"/* | sort
whole=$(cat "$logs"/* | grep -c '^--- SKIP: ') || true
part=$(sed -n 's/^  *--- SKIP: \([^ /]*\).*/\1/p' "$logs"/* | sort -u | grep -c .) || true
loud ${missing[@]+"${missing[@]}"} "" "Skipped: the $whole tests above, and parts of $part others."
exit "$status"
