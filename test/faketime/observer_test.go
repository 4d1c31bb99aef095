package faketime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/world"
)

// diary is an Observer that writes down all events.
type diary struct {
	mu     sync.Mutex
	events []fairlock.Event
}

func (d *diary) Observe(e fairlock.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
}

// reads returns, in short form, what was written since the last read. It also checks the fields
// that every entry must have.
func (d *diary) reads(t *testing.T) []string {
	t.Helper()
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, e := range d.events {
		text := e.Kind.String()
		switch e.Kind {
		case fairlock.Queued:
			text += fmt.Sprintf(" at %d", e.Position)
		case fairlock.Acquired, fairlock.GaveUp, fairlock.Released, fairlock.Lost:
			text += fmt.Sprintf(" after %v", e.Took)
		case fairlock.Renewed:
			text += fmt.Sprintf(" %d", e.Locks)
		}
		ours := e.Kind != fairlock.Renewed && e.Kind != fairlock.Reconnected
		if ours && e.Name != "x" {
			t.Errorf("%s: of %q", text, e.Name)
		}
		if e.Kind == fairlock.Acquired || e.Kind == fairlock.Released || e.Kind == fairlock.Lost {
			if e.Token == 0 || e.Owner == "" || e.Context.Value(traceKey{}) != "trace" {
				t.Errorf("%s: %+v", text, e)
			}
		}
		if failed := e.Kind == fairlock.GaveUp || e.Kind == fairlock.Lost; failed != (e.Err != nil) {
			t.Errorf("%s: %v", text, e.Err)
		}
		all = append(all, text)
	}
	d.events = nil
	return all
}

type traceKey struct{}

// observed runs a test in fake time with two Lockers of each kind, one of them observed.
func observed(t *testing.T, test func(t *testing.T, o *observation)) {
	t.Helper()
	world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
		inFakeTime(t, func(b *bubble) {
			o := &observation{bubble: b, kind: kind, prefix: prefix, plain: prefix == "fairlock:plain"}
			o.ctx = context.WithValue(context.Background(), traceKey{}, "trace")
			o.locker, o.network = o.makes(fairlock.WithObserver(&o.diary))
			o.other, _ = o.makes()
			test(b.T, o)
		})
	})
}

type observation struct {
	*bubble
	diary
	kind    world.Kind
	prefix  string
	plain   bool
	ctx     context.Context
	locker  fairlock.Interface
	network *network
	other   fairlock.Interface
}

func (o *observation) makes(options ...fairlock.Option) (fairlock.Interface, *network) {
	return onNetwork(o, o.mini, o.kind, options...)
}

func (o *observation) expects(t *testing.T, want ...string) {
	t.Helper()
	if got := o.reads(t); !slices.Equal(got, want) {
		t.Errorf("observed\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func (o *observation) locks(l fairlock.Interface, options ...fairlock.LockOption) *fairlock.Lease {
	o.Helper()
	lease, err := l.Lock(o.ctx, "x", options...)
	if err != nil {
		o.Fatal(err)
	}
	return lease
}

func (o *observation) unlocks(lease *fairlock.Lease) {
	o.Helper()
	if err := lease.Unlock(o.ctx); err != nil {
		o.Fatal(err)
	}
}

func TestAnObserverIsToldHowLongALockWasHeldAndRenewed(t *testing.T) {
	observed(t, func(t *testing.T, o *observation) {
		lease := o.locks(o.locker)
		nested, err := o.locker.Lock(lease.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		o.unlocks(nested)
		o.expects(t, "acquired after 0s")
		time.Sleep(15 * time.Second)
		o.unlocks(lease)
		o.expects(t, "renewed 1", "released after 15s")
	})
}

func TestAnObserverIsToldHowLongACallWaited(t *testing.T) {
	observed(t, func(t *testing.T, o *observation) {
		theirs := o.locks(o.other)
		done := make(chan *fairlock.Lease)
		go func() { done <- o.locks(o.locker) }()
		time.Sleep(1500 * time.Millisecond)
		o.unlocks(theirs)
		lease := <-done
		o.expects(t, "queued at 1", "acquired after 1.5s")
		o.unlocks(lease)
		o.expects(t, "released after 0s")
	})
}

func TestAnObserverIsToldOfACallThatGaveUp(t *testing.T) {
	observed(t, func(t *testing.T, o *observation) {
		theirs := o.locks(o.other)
		if _, err := o.locker.TryLock(o.ctx, "x"); !errors.Is(err, fairlock.ErrHeld) {
			t.Fatal(err)
		}
		o.expects(t, "gave up after 0s")
		if _, err := o.locker.Lock(o.ctx, "x", fairlock.WaitAtMost(2*time.Second)); !errors.Is(err, fairlock.ErrHeld) {
			t.Fatal(err)
		}
		o.expects(t, "queued at 1", "gave up after 2s")
		o.unlocks(theirs)
		if err := o.locker.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := o.locker.Lock(o.ctx, "x"); !errors.Is(err, fairlock.ErrClosed) {
			t.Fatal(err)
		}
		o.expects(t, "gave up after 0s")
	})
}

func TestAnObserverIsToldOnceThatALockWasLost(t *testing.T) {
	for how, lose := range map[string]func(o *observation){
		"expired": func(o *observation) {
			o.network.stop()
			time.Sleep(27 * time.Second)
			synctest.Wait()
			o.network.resume()
		},
		"deleted": func(o *observation) {
			o.mini.Del(o.prefix + ":lock:{x}")
			time.Sleep(27 * time.Second)
		},
	} {
		t.Run(how, func(t *testing.T) {
			observed(t, func(t *testing.T, o *observation) {
				lease := o.locks(o.locker)
				o.expects(t, "acquired after 0s")
				lose(o)
				if err := lease.Unlock(o.ctx); !errors.Is(err, fairlock.ErrLost) {
					t.Fatal(err)
				}
				// A renewal is due at 10 s. It may go out up to 2 s earlier with another one.
				want := map[string]string{"expired": "lost after 27s", "deleted": "lost after 8s"}[how]
				o.expects(t, want)
			})
		})
	}
}

func TestAnObserverIsToldOfALossThatOnlyUnlockFindsOut(t *testing.T) {
	observed(t, func(t *testing.T, o *observation) {
		lease := o.locks(o.locker)
		o.mini.Del(o.prefix + ":lock:{x}")
		if err := lease.Unlock(o.ctx); !errors.Is(err, fairlock.ErrLost) {
			t.Fatal(err)
		}
		o.expects(t, "acquired after 0s", "lost after 0s")
	})
}

func TestAnObserverIsToldThatAWaiterWasPassedOverAndTheSubscriptionMadeAgain(t *testing.T) {
	observed(t, func(t *testing.T, o *observation) {
		theirs := o.locks(o.other)
		done := make(chan *fairlock.Lease)
		go func() { done <- o.locks(o.locker) }()
		time.Sleep(100 * time.Millisecond)
		o.expects(t, "queued at 1")
		if !o.plain {
			o.mini.Del(o.prefix + ":queue:{x}")
			o.mini.Del(o.prefix + ":waiters:{x}")
		}
		o.network.breaks()
		time.Sleep(5 * time.Second)
		got := o.reads(t)
		slices.Sort(got)
		want := []string{"passed over", "reconnected"}
		if o.plain {
			want = want[1:]
		}
		if !slices.Equal(got, want) {
			t.Errorf("observed %v", got)
		}
		o.unlocks(theirs)
		o.unlocks(<-done)
	})
}

// Either way, an Observer must be able to add the events up.
func TestACallThatIsCancelledAsItsLockComesIsObservedAsOneOrTheOther(t *testing.T) {
	observed(t, func(t *testing.T, o *observation) {
		for range 50 {
			theirs := o.locks(o.other)
			ctx, cancel := context.WithCancel(o.ctx)
			done := make(chan *fairlock.Lease, 1)
			go func() {
				lease, _ := o.locker.Lock(ctx, "x")
				done <- lease
			}()
			synctest.Wait()
			go cancel()
			o.unlocks(theirs)
			acquired, gone := 0, 0
			if lease := <-done; lease != nil {
				o.unlocks(lease)
				acquired = 1
			}
			for _, what := range o.reads(t) {
				switch {
				case strings.HasPrefix(what, "acquired"):
					acquired--
				case strings.HasPrefix(what, "released"):
					gone++
				case strings.HasPrefix(what, "gave up"):
					gone++
				}
			}
			if acquired != 0 || gone != 1 {
				t.Fatalf("%d too few acquired, %d ended", acquired, gone)
			}
		}
	})
}
