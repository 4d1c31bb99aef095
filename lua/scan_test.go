package lua

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/nosy"
)

// scans returns the names that a scan finds, each with its owner and its number of waiters.
func (p *party) scans(prefix string) map[string]string {
	p.s.t.Helper()
	found := make(map[string]string)
	for _, l := range p.listed(prefix) {
		found[l.Name] = fmt.Sprint(l.State.Owner, " ", l.State.Waiting)
	}
	return found
}

// listed returns all that a scan shows, in its order.
func (p *party) listed(prefix string) (all []Listed) {
	p.s.t.Helper()
	scan := p.Scan(prefix, 3)
	for more := true; more; {
		var page []Listed
		var err error
		page, more, err = scan.Next(ctx)
		must(p.s.t, err)
		all = append(all, page...)
	}
	return all
}

// damaged returns the names of those that are shown as damaged.
func damaged(all []Listed) (names []string) {
	for _, l := range all {
		if l.State.Damaged != nil {
			names = append(names, l.Name)
		}
	}
	return names
}

func TestAScanFindsWhatIsHeldOrWaitedForOnEveryNode(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		for _, prefix := range []string{"fairlock", "a[b]*?\\"} {
			a := &party{Server: NewServer(s.rdb, Channels(prefix), "a"), s: s, id: "a"}
			want := make(map[string]string)
			enters := func(keys Keys) {
				t.Helper()
				_, err := a.Enter(ctx, keys, Enter{Spare: usual, Tickets: []EnterTicket{{Ticket: parsed(a.ticket(usual))}}})
				must(t, err)
			}
			for _, name := range []string{"a", "{a}:b", "x y [*]", "{}", "{a}{b}", "lock:x", "q", "7", "8", "9", "10", "11"} {
				keys, err := NewKeys(prefix, name)
				must(t, err)
				enters(keys)
				want[name] = fmt.Sprintf("a:%d 0", a.counter)
				if name == "q" {
					enters(keys)
					want[name] = fmt.Sprintf("a:%d 1", a.counter-1)
				}
			}
			keys, err := NewKeys(prefix, "waited for")
			must(t, err)
			enters(keys)
			enters(keys)
			must(t, s.rdb.Del(ctx, keys.Record()).Err())
			want["waited for"] = " 1"
			must(t, s.rdb.Set(ctx, prefix+":lock:{theirs}", "x", usual).Err())
			want["theirs"] = " 0" // a key of another type belongs to no lock
			found := a.scans(prefix)
			if !maps.Equal(found, want) {
				t.Errorf("%q: found\n%v\nwant\n%v", prefix, found, want)
			}
			other := a.scans("other")
			equal(t, "under another prefix", len(other), 0)
		}
	})
}

func TestAScanShowsALockOfWhichAKeyHasAnotherTypeAsDamaged(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		for what, key := range map[string]string{"record": s.keys.Record(), "queue": s.keys.Queue(), "waiters": s.keys.Waiters()} {
			s.forgetAll()
			a := s.party("a")
			a.holds(usual)
			a.waits(usual)
			s.untidy = true
			must(t, s.rdb.Set(ctx, key, "theirs", usual).Err())
			equal(t, "shown as damaged, where its "+what+" is a string", fmt.Sprint(damaged(a.listed("fairlock"))), "[x]")
			s.untidy = false
		}
	})
}

func TestAScanRunsWhereTheScriptIsNotLoadedYet(t *testing.T) {
	s := onRedis(t)
	a := s.party("a")
	a.holds(usual)
	must(t, s.rdb.ScriptFlush(ctx).Err())
	found := slices.Collect(maps.Keys(a.scans("fairlock")))
	equal(t, "found", fmt.Sprint(found), "[x]")
}

func TestAScanOfAServerThatRefusesIsAnError(t *testing.T) {
	s := onRedis(t)
	s.as("-scan")
	a := s.party("a")
	if _, _, err := a.Scan("fairlock", 10).Next(ctx); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Fatalf("got %v", err)
	}
}

// As a node says that was removed from its cluster and lives on.
func TestAScanOfAClusterThatNamesNoNodesIsAnError(t *testing.T) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:        []string{"127.0.0.1:1"},
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return nil, nil },
	})
	defer rdb.Close()
	if page, more, err := NewServer(rdb, "w:", "a").Scan("fairlock", 10).Next(t.Context()); err == nil || more || len(page) > 0 {
		t.Errorf("%v, %v, %v", page, more, err)
	}
}

// The monitor of docs/security.md may read what inspect.lua reads, and nothing else.
func TestAScanByAUserThatMayOnlyReadGoesOnBesideAKeyOfAnotherType(t *testing.T) {
	s := onRedis(t)
	s.party("a").holds(usual)
	must(t, s.rdb.Set(ctx, "fairlock:lock:{theirs}", "text", 0).Err())
	must(t, s.rdb.Set(ctx, s.keys.Waiters(), "text", 0).Err())
	s.as("-@all", "+eval", "+evalsha", "+time", "+scan", "+get", "+pttl", "+hgetall", "+llen", "+lrange", "+zcard", "+hello", "+client", "+info")
	equal(t, "damaged", fmt.Sprint(damaged(s.party("monitor").listed("fairlock"))), "[x]")
}

// panicky is a hook whose error for scripts in a pipeline panics as it is asked.
type panicky struct{ counter }

func (*panicky) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, all []redis.Cmder) error {
		if strings.HasPrefix(all[0].Name(), "eval") {
			return nosy.Error(errors.New("the hook's own"), func() { panic("the error's own") })
		}
		return next(ctx, all)
	}
}

// A List scans in a goroutine in which nobody recovers.
func TestAScanOutlivesAnErrorThatPanicsAsItIsAsked(t *testing.T) {
	s := onRedis(t)
	a := s.party("a")
	a.takes(a.ticket(usual))
	c := single(t).Client(t)
	c.AddHook(new(panicky))
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("the process would end: %v", p)
		}
	}()
	_, _, err := NewServer(c, Channels("fairlock"), "b").Scan("fairlock", 10).Next(ctx)
	equal(t, "an error", err != nil, true)
}
