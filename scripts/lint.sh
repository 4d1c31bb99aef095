#!/usr/bin/env bash
# go vet and golangci-lint over every module. Arguments go to golangci-lint, for example --fix.
. "$(dirname "$0")/lib.sh"
go vet work
# shellcheck disable=SC2046 # one word per module
golangci_lint run "$@" $(modules | sed 's|$|/...|')
