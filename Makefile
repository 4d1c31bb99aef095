# The verbs are scripts; see scripts/. CI runs the same ones.
.DEFAULT_GOAL := help
.PHONY: help fmt lint test simulate torture bench fuzz

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

fmt: ## format all Go code
	@scripts/fmt.sh

lint: ## golangci-lint over all modules (the first run builds it: some minutes)
	@scripts/lint.sh $(ARGS)

test: ## everything there is to test; ARGS='-run Name -v' for go test's own flags
	@scripts/test.sh $(ARGS)

simulate: ## whole clients under faults in fake time: CI's 25 h; SEEDS=1000-1999, or SEEDS=7 to replay one
	@SEEDS='$(SEEDS)' scripts/simulate.sh $(ARGS)

torture: ## six processes, a saboteur and the judges, for FOR (60s); SEED repeats the choices of a run
	@FOR='$(FOR)' SEED='$(SEED)' scripts/torture.sh $(ARGS)

bench: ## the benchmarks; BENCH=regexp, ARGS='-count=10'
	@BENCH='$(BENCH)' scripts/bench.sh $(ARGS)

fuzz: ## every fuzz test in turn, each for FUZZTIME (30s)
	@FUZZTIME='$(FUZZTIME)' scripts/fuzz.sh $(ARGS)
