# The verbs are scripts; see scripts/. CI runs the same ones.
.DEFAULT_GOAL := help
.PHONY: help fmt lint test simulate prove mutants torture conformance bench bench-quick microbench fuzz picture

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

fmt: ## format all Go code
	@scripts/fmt.sh

lint: ## golangci-lint over all modules (the first run builds it: some minutes)
	@scripts/lint.sh $(ARGS)

test: ## everything there is to test; ARGS='-run Name -v' for go test's own flags
	@scripts/test.sh $(ARGS)

simulate: ## whole clients under faults in fake time: CI's 4 h; SEEDS=1000-1999, or SEEDS=7 to replay one; NODES=3 of a quorum
	@SEEDS='$(SEEDS)' NODES='$(NODES)' scripts/simulate.sh $(ARGS)

prove: ## all that the explorers can come to, all mutations there, a day of simulation: make test has a part (half an hour)
	@scripts/prove.sh

mutants: ## every condition, bound and step of the rules and the scripts, changed one at a time (hours); ARGS='-only hold.go'
	@scripts/mutants.sh $(ARGS)

torture: ## six processes, a saboteur and the judges, for FOR (60s); NODES=3 on a quorum; SEED repeats the choices of a run
	@FOR='$(FOR)' SEED='$(SEED)' NODES='$(NODES)' scripts/torture.sh $(ARGS)

conformance: ## what every server must do, on one: REDIS_SERVER=program; its last line is a row of docs/compatibility.md
	@REDIS_SERVER='$(REDIS_SERVER)' scripts/conformance.sh

bench: ## Fairlock beside its peers, for docs/performance.md; ARGS='-workloads handover -peers fairlock,baton' (one and a half hours)
	@scripts/bench.sh $(ARGS)

bench-quick: ## the same, smaller, in less than two minutes; writes nothing
	@scripts/bench.sh -quick $(ARGS)

microbench: ## Go's benchmarks; BENCH=regexp, ARGS='-count=10'
	@BENCH='$(BENCH)' scripts/microbench.sh $(ARGS)

fuzz: ## every fuzz test in turn, each for FUZZTIME (30s)
	@FUZZTIME='$(FUZZTIME)' scripts/fuzz.sh $(ARGS)

picture: ## docs/demo.svg, which the README shows: the demo in a terminal (needs tmux)
	@scripts/picture.sh
