package topologies

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/conformance"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// confirmedOnACluster asks the replicas of each master. WAIT names no key, and covers only what its
// own connection wrote. So it must go out together with the script.
func confirmedOnACluster(t *testing.T, c *redistest.Cluster) {
	homes := homesOn(t, c, "confirmed")
	world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
		hook, rdb := sentHook{make(chan []string, 1000)}, c.Client(t)
		rdb.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
		locker := kind(rdb)
		defer locker.Close()
		for _, home := range homes {
			home.confirms(t, locker, prefix, homes)
			home.lacks(t, locker, 2, 3*time.Second, "1 of 2 ", "the server has 1 connected")
		}
		homes[0].replica.Pause()
		defer c.AwaitWhole()
		defer homes[0].replica.Resume()
		homes[0].lacks(t, locker, 1, time.Second, "0 of 1 ")
		homes[0].lacks(t, locker, 2, time.Second, "0 of 2 ", "the server has 1 connected")
		for _, home := range homes[1:] {
			home.confirms(t, locker, prefix, homes[1:]) // the other replicas answer
		}
		homes[0].replica.Resume()
		homes[0].confirms(t, locker, prefix, homes)
		for len(hook.sent) > 0 {
			if sent := <-hook.sent; slices.Contains(sent, "wait") && (len(sent) != 2 || !strings.HasPrefix(sent[0], "eval")) {
				t.Errorf("sent %v", sent)
			}
		}
	})
}

// home is a lock, and the servers that keep it.
type home struct {
	name            string
	master, replica *redistest.Server
}

// homesOn finds a lock for each master.
func homesOn(t *testing.T, c *redistest.Cluster, prefix string) (all []home) {
	t.Helper()
	for _, master := range c.Masters() {
		var replicas []*redistest.Server
		world.Until(t, "a master has a replica", func() bool {
			replicas = c.ReplicasOf(master)
			return len(replicas) == 1
		})
		name, i := "", 0
		for ; name == "" || c.MasterOf("{"+name+"}") != master; i++ {
			name = fmt.Sprint(prefix, " ", i)
		}
		all = append(all, home{name, master, replicas[0]})
	}
	return all
}

// confirms locks with one replica. That must be the replica of the lock's master, and must have the
// lock at once.
func (h home) confirms(t *testing.T, l conformance.Locker, prefix string, homes []home) {
	t.Helper()
	lease, err := l.Lock(t.Context(), h.name, fairlock.WithReplicas(1, 2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	record := prefix + ":lock:{" + h.name + "}"
	for _, other := range homes {
		has := len(other.replica.Client(t).Keys(t.Context(), record).Val()) == 1
		if has != (other == h) {
			t.Errorf("that the replica of %s has %s: %v", other.name, h.name, has)
		}
	}
	conn := h.replica.Client(t).Conn()
	defer conn.Close()
	if err := conn.ReadOnly(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if got := conn.HGet(t.Context(), record, "token").Val(); got != strconv.FormatInt(lease.Token(), 10) {
		t.Errorf("the replica has token %q of %d", got, lease.Token())
	}
	if err := lease.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// lacks locks with more replicas than can confirm the lock. The call must give the lock back.
func (h home) lacks(t *testing.T, l conformance.Locker, n int, within time.Duration, says ...string) {
	t.Helper()
	_, err := l.Lock(t.Context(), h.name, fairlock.WithReplicas(n, within))
	if !errors.Is(err, fairlock.ErrNotReplicated) {
		t.Fatalf("%d replicas: got %v", n, err)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not in %v", text, err)
		}
	}
	lease, err := l.Lock(t.Context(), h.name, fairlock.WaitAtMost(10*time.Second)) // the lease would last for 30 s
	if err != nil || lease.Unlock(t.Context()) != nil {
		t.Fatal(err)
	}
}
