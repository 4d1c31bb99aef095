#!/usr/bin/env bash
# Installs Debian's redis-server for the tests: only the program; no service is left running or
# enabled. Fails, and says why, if that would need a question: no apt-get, no root, no sudo without
# a password, or only an old version.
set -euo pipefail

no() {
	echo "not installing redis-server: $*" >&2
	exit 1
}

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

command -v apt-get >/dev/null || no "there is no apt-get"
as_root true 2>/dev/null || no "this takes root, or sudo without a password"

log=$(mktemp)
policy=/usr/sbin/policy-rc.d # the package asks this file before it starts its service
policy_is_ours=

tidy() {
	rm -f "$log"
	if [ -n "$policy_is_ours" ]; then as_root rm -f "$policy"; fi
}
trap tidy EXIT

quietly() {
	as_root env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 </dev/null || {
		tail -n 20 "$log" >&2
		no "$* failed"
	}
}

echo "installing redis-server from Debian's packages..."
quietly apt-get -q update
candidate=$(LC_ALL=C apt-cache policy redis-server | sed -n 's/^ *Candidate: *\([0-9]*:\)\{0,1\}\([0-9]*\)\..*/\2/p')
[ "${candidate:-0}" -ge 7 ] || no "the newest package is version ${candidate:-none}, and 7.0 is needed"

if [ ! -e "$policy" ]; then
	policy_is_ours=1
	as_root sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy"
fi
quietly apt-get -q install -y --no-install-recommends redis-server
as_root update-rc.d redis-server disable >/dev/null 2>&1 || true # in a container there is no service to disable
