package redistest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestSentinelsMakeAReplicaTheMasterWhenThatIsKilled(t *testing.T) {
	s := StartSentinels(t)
	ctx := context.Background()
	c := s.Client(t)
	must(t, c.Set(ctx, "x", "1", 0).Err())
	must(t, c.Wait(ctx, 2, time.Second).Err())
	for range 2 {
		old := s.Master()
		died, replaced := s.KillMaster()
		t.Logf("a new master after %v", replaced.Sub(died))
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

// The sentinel that promotes a server dies before it tells the others of that. In two seconds,
// quick ones would have made that server a replica again, and named it the master later all the
// same.
func TestANewMasterStaysOneWhileTheOthersHaveYetToHearOfIt(t *testing.T) {
	s := StartSentinels(t)
	s.greeting(calm)
	w := s.watchers[0]
	c := w.Client(t, func(o *redis.Options) { o.DisableIdentity, o.MaxRetries = true, -1 })
	must(t, c.Do(t.Context(), "sentinel", "simulate-failure", "crash-after-promotion").Err())
	eventually(t, "a failover begins", func() bool { return c.Do(t.Context(), "sentinel", "failover", MasterName).Err() == nil })
	eventually(t, "it promotes a server and dies", w.process().ended)
	time.Sleep(3 * time.Second)
	masters := 0
	for _, r := range s.Replicas() {
		if isMaster(t, r) {
			masters++
		}
	}
	if masters != 1 {
		t.Fatalf("%d of the replicas are masters", masters)
	}
	w.Restart() // its file names the new master
	s.hurried(w)
	s.promoted()
	if !isMaster(t, s.Master()) {
		t.Error("all name a replica")
	}
}
