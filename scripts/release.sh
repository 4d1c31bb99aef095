#!/usr/bin/env bash
# Prepares a release: scripts/release.sh v0.2.0 says what would be tagged, and changes nothing. With
# -tag it makes the tags in this repository. It never pushes.
. "$(dirname "$0")/lib.sh"
exec go -C scripts/release run . -from "$PWD" "$@"
