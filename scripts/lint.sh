#!/usr/bin/env bash
# Runs go mod tidy -diff and golangci-lint over every module; go vet is one of its linters.
# Arguments go to golangci-lint, for example --fix.
. "$(dirname "$0")/lib.sh"
sooner
for dir in $(modules); do
	(cd "$dir" && GOWORK=off go mod tidy -diff)
done
# shellcheck disable=SC2046 # one word per module
golangci_lint run "$@" $(modules | sed 's|$|/...|')
