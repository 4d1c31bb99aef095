#!/usr/bin/env bash
# Formats all Go code: gofumpt and goimports, as .golangci.yml has them.
. "$(dirname "$0")/lib.sh"
golangci_lint fmt
