#!/usr/bin/env bash
# Changes every condition, bound and step of the rules and the scripts, one at a time, and prints
# the changes that no test finds. Arguments go to test/mutants.
. "$(dirname "$0")/lib.sh"
go run ./test/mutants "$@"
