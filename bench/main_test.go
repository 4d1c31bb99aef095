package main

import (
	"testing"

	"github.com/fairlock/locks/bench/host"
	"github.com/fairlock/locks/bench/workloads"
)

func TestWorkloadsAndPeersAreChosenByName(t *testing.T) {
	var r run
	if err := r.choose("gap,pair", "baton,fairlock"); err != nil {
		t.Fatal(err)
	}
	if len(r.workloads) != 2 || r.workloads[0].Name != "gap" || len(r.peers) != 2 || r.peers[0].Name != "baton" {
		t.Errorf("%d workloads, %d peers", len(r.workloads), len(r.peers))
	}
	if err := r.choose("pear", ""); err == nil {
		t.Error("there is a workload called pear")
	}
	if err := r.choose("", ""); err != nil || len(r.workloads) != 9 {
		t.Errorf("%d workloads, %v", len(r.workloads), err)
	}
}

func TestWhatIsMissingOrCannotIsARowAndWhatIsNotMeantToIsNone(t *testing.T) {
	r := run{scale: workloads.Tiny, missing: map[string]string{"etcd": "not installed"}}
	if err := r.choose("leases", "fairlock,redsync,etcd,baton"); err != nil {
		t.Fatal(err)
	}
	all := r.turns(r.workloads[0])
	if len(all) != 3 || all[0].row.Why != "" || all[1].row.Why == "" || all[2].row.Why != "not installed" {
		t.Errorf("%+v", all)
	}
}

func TestTheMachineAndTheVersionsAreKnown(t *testing.T) {
	if machine() == "" {
		t.Error("no machine")
	}
	if _, err := host.RedisProgram(); err == nil {
		if got := output(host.RedisProgram, "v=", "Redis "); len(got) < len("Redis 7.0") {
			t.Error(got)
		}
	}
}
