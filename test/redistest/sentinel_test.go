package redistest

import (
	"context"
	"testing"
	"time"
)

func TestSentinelsMakeAReplicaTheMasterWhenThatIsKilled(t *testing.T) {
	s := StartSentinels(t)
	ctx := context.Background()
	c := s.Client(t)
	must(t, c.Set(ctx, "x", "1", 0).Err())
	must(t, c.Wait(ctx, 2, time.Second).Err())
	for range 2 {
		old := s.Master()
		t.Logf("a new master after %v", s.KillMaster())
		if s.Master() == old || s.Replicas()[1] != old {
			t.Fatal("the dead one is still the master")
		}
		eventually(t, "the client has found the new master, which has the data", func() bool {
			return c.Set(ctx, "y", "2", 0).Err() == nil && c.Get(ctx, "x").Val() == "1"
		})
		s.Revive()
		if got := old.Client(t).Get(ctx, "y").Val(); got != "2" {
			t.Errorf("the one that came back as a replica has %q", got)
		}
	}
}

func TestSentinelsSwitchMastersWhileBothAreAlive(t *testing.T) {
	s := StartSentinels(t)
	old := s.Master()
	s.SwitchMaster()
	if s.Master() == old || ping(old.Client(t)) != nil {
		t.Fatal("it is still the master, or dead")
	}
	eventually(t, "the new master takes writes", func() bool { return s.Client(t).Set(context.Background(), "x", "1", 0).Err() == nil })
}

func TestNoSentinelTakesAMasterForDeadThatStandsStill(t *testing.T) {
	s := StartSentinels(t)
	s.Master().Pause()
	time.Sleep(3 * time.Second) // the quickest sentinel takes a second once a failover is wanted
	s.Master().Resume()
	if old := s.Master(); !s.agreed() || s.Master() != old {
		t.Error("there was a failover")
	}
	s.KillMaster()
}
