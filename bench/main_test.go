package main

import (
	"slices"
	"testing"

	"github.com/fairlock/locks/bench/host"
	"github.com/fairlock/locks/bench/peers"
	"github.com/fairlock/locks/bench/workloads"
)

func TestWorkloadsAndPeersAreChosenByName(t *testing.T) {
	var r run
	if err := r.choose("gap,pair", "baton,fairlock", ""); err != nil {
		t.Fatal(err)
	}
	if len(r.workloads) != 2 || r.workloads[0].Name != "gap" || len(r.peers) != 2 || r.peers[0].Name != "baton" {
		t.Errorf("%d workloads, %d peers", len(r.workloads), len(r.peers))
	}
	if err := r.choose("pear", "", ""); err == nil {
		t.Error("there is a workload called pear")
	}
	if err := r.choose("", "", ""); err != nil || len(r.workloads) != 9 {
		t.Errorf("%d workloads, %v", len(r.workloads), err)
	}
}

func TestWhatIsMissingOrCannotIsARowAndWhatIsNotMeantToIsNone(t *testing.T) {
	r := run{scale: workloads.Tiny, missing: map[string]string{"etcd": "not installed"}}
	if err := r.choose("leases", "fairlock,redsync,etcd,baton", ""); err != nil {
		t.Fatal(err)
	}
	all := r.turns(r.workloads[0])
	if len(all) != 3 || all[0].row.Why != "" || all[1].row.Why == "" || all[2].row.Why != "not installed" {
		t.Errorf("%+v", all)
	}
}

func TestCasesAreChosenByLabel(t *testing.T) {
	r := run{scale: workloads.Full}
	if err := r.choose("handover,gap", "fairlock", "8 waiters,64 waiters,loopback"); err != nil {
		t.Fatal(err)
	}
	if all := r.turns(r.workloads[0]); len(all) != 2 || all[1].row.Case != "64 waiters" {
		t.Errorf("%+v", all)
	}
	if all := r.turns(r.workloads[1]); len(all) != 1 || all[0].row.Case != "loopback" {
		t.Errorf("%+v", all)
	}
	if err := r.choose("gap", "", "8 waiters"); err == nil {
		t.Error("the workload gap has a case of another")
	}
}

func TestWhatStartsSlowlyIsInASmallRunOnlyByItsName(t *testing.T) {
	slow := func(r run) bool {
		return slices.ContainsFunc(r.peers, func(p peers.Peer) bool { return p.Slow })
	}
	for _, c := range []struct {
		scale workloads.Scale
		peers string
		want  bool
	}{{workloads.Quick, "", false}, {workloads.Full, "", true}, {workloads.Quick, "Redisson 4.7", true}} {
		r := run{scale: c.scale}
		if err := r.choose("", c.peers, ""); err != nil {
			t.Fatal(err)
		}
		if slow(r) != c.want {
			t.Errorf("%s scale, peers %q: %v, want %v", c.scale.Name, c.peers, slow(r), c.want)
		}
	}
}

func TestAPeerWithoutWhatItNeedsIsARowWithTheReason(t *testing.T) {
	r := run{scale: workloads.Full, missing: map[string]string{"Redisson 4.7": "no JDK"}}
	if err := r.choose("gap", "Redisson's,Redisson 4.7", "loopback"); err != nil {
		t.Fatal(err)
	}
	all := r.turns(r.workloads[0])
	if len(all) != 2 || all[0].row.Why != "" || all[1].row.Why != "no JDK" || all[1].of.Repeats != 1 {
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
