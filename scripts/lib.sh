# The scripts beside this file source it. It works with bash 3.2, the version of macOS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# If the checkout belongs to another user, git refuses to tell go its version, and go refuses to
# build. Without paths in what is built, a second checkout of the same code need not be compiled:
# the release of a stranger, and the linters. Without what debuggers need, compilers compute an
# eighth less.
GOFLAGS="$(go env GOFLAGS) -buildvcs=false -trimpath -gcflags=all=-dwarf=false"
export GOFLAGS

# sooner has what is ours compiled without inlining, for tests and linters: not for what is measured.
# In almost each package the compiler makes some 1,500 functions anew, for the sake of a type of
# go-redis 9.23 (weak.Pointer[Client]): a second of a core, and inlining is half of that.
sooner() { GOFLAGS="$GOFLAGS '-gcflags=github.com/fairlock/locks/...=-dwarf=false -l'"; }

GOLANGCI_LINT=github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

golangci_lint() {
	GOGC=400 go run -exec "env GOGC=200" "$GOLANGCI_LINT" "$@" # a quarter less time for half as much memory again
}

# modules prints the directory of every module, the root first.
modules() {
	find . -name go.mod -not -path '*/.*/*' -not -path '*/testdata/*' -exec dirname {} \; | sort
}

# packages_with prints the directories whose tests declare functions that begin with $1.
packages_with() {
	grep -rlE --include='*_test.go' "^func $1[A-Z]" . | xargs -n 1 dirname | sort -u
}

# loud prints a box that nobody scrolls past.
loud() {
	printf '\n%s\n' '******************************************************************************'
	printf '** %s\n' "$@"
	printf '%s\n\n' '******************************************************************************'
}

# use_redis exports REDIS_SERVER, the program that tests start their servers with. It fails if there
# is no such program. A REDIS_SERVER that is set already is taken as it is. A missing program is
# installed if that needs no question.
use_redis() {
	if [ -n "${REDIS_SERVER:-}" ]; then
		command -v "$REDIS_SERVER" >/dev/null || {
			echo "REDIS_SERVER=$REDIS_SERVER is no program" >&2
			exit 1
		}
	elif ! find_redis; then
		scripts/install-redis.sh && find_redis || return 1
	fi
	echo "server: $("$REDIS_SERVER" --version)"
}

# find_redis takes the first server on the PATH that is new enough: Redis 7.0, Valkey 7.2.
find_redis() {
	local name major
	for name in redis-server valkey-server; do
		major=$("$name" --version 2>/dev/null | sed -n 's/.* v=\([0-9]*\)\..*/\1/p') || true
		if [ "${major:-0}" -ge 7 ]; then
			export REDIS_SERVER=$name
			return
		fi
	done
	return 1
}

# find_postgres reports whether there is a PostgreSQL for the example seckill. Debian keeps it off
# the PATH.
find_postgres() {
	[ -n "${POSTGRES_URL:-}" ] || command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null
}

# find_chromium reports whether there is a browser for the tests of fairlock web.
find_chromium() {
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || command -v chrome >/dev/null
}

# find_java reports whether there are a JDK and Maven, for the tests beside the real Redisson.
find_java() {
	command -v java >/dev/null && command -v javac >/dev/null && command -v mvn >/dev/null
}
