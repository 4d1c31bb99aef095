package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/quorum"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHowManyWaitIsSaidAlsoOfALineOfWhichOnlyTheFirstAreTold(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind                 string
		told, waiting, shown int
		want                 string
	}{
		{locks.Fair, 20, 20, 20, ""},
		{locks.Fair, 22, 22, 20, "and 2 more (--all shows them), the last has waited for 5s"},
		{locks.Redisson, 22, 22, 20, "and 2 more (--all shows them)"},
		{locks.Quorum, 22, 22, 20, "and 2 more (--all shows them), the last has waited for 5s"},
		{locks.Quorum, 500, 700, 20, "and 680 more (--all shows the first 500)"},
		{locks.Quorum, 500, 700, 500, "and 200 more"},
	} {
		r := &locks.Record{Kind: test.kind, Waiting: test.waiting, Waiters: make([]locks.WaiterRecord, test.told)}
		r.Waiters[test.told-1].Waited = 5000
		if got := theRest(r, test.shown); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

// meeting is a node whose SCAN is answered once all nodes are asked.
type meeting struct{ asked, all chan struct{} }

func (m *meeting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *meeting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (m *meeting) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		close(m.asked)
		select {
		case <-m.all:
			cmd.(*redis.ScanCmd).SetVal([]string{"quorum:lock:{x}"}, 0)
			return nil
		case <-time.After(10 * time.Second):
			return errors.New("the others are not asked")
		}
	}
}

func TestTheLocksOfAllNodesAreCountedSideBySide(t *testing.T) {
	t.Parallel()
	all := make(chan struct{})
	var nodes []*meeting
	var clients []redis.UniversalClient
	for range 3 {
		m := &meeting{make(chan struct{}), all}
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		t.Cleanup(func() { _ = rdb.Close() })
		rdb.AddHook(m)
		nodes, clients = append(nodes, m), append(clients, rdb)
	}
	go func() {
		for _, m := range nodes {
			<-m.asked
		}
		close(all)
	}()
	records := make([]nodeRecord, 3)
	(&Init{}).counts(t.Context(), records, clients)
	for _, r := range records {
		if r.failed != nil || r.Locks != 1 {
			t.Errorf("%+v", r)
		}
	}
}

func TestAQuorumThatWaitsBecauseItMayHaveForgottenIsNotToldThatItIsNew(t *testing.T) {
	t.Parallel()
	cut := nodeRecord{Node: "a", Set: "of three", Quarantine: 60_000} // as after a power cut
	unknown := nodeRecord{Node: "b", Quarantine: 60_000}
	for _, nodes := range [][]nodeRecord{{cut, cut, cut}, {cut, unknown, unknown}} {
		err := (&Init{New: true}).judge(nodes)
		if exit.Code(err) != exit.Nothing || !strings.Contains(fmt.Sprint(err), "a belongs to this quorum and may have forgotten what it granted: wait, once its users run") {
			t.Error(err)
		}
		if err := (&Init{New: true, Anyway: true}).judge(nodes); err != nil {
			t.Errorf("anyway: %v", err)
		}
	}
	if err := (&Init{New: true}).judge([]nodeRecord{unknown, unknown, unknown}); err != nil {
		t.Errorf("of a new quorum: %v", err)
	}
}

// blurred is a Locker whose Inspect does not show the waiter id, though it may be there.
type blurred struct {
	fairlock.Interface
	waiting int
	id      string
	refuses error // what Evict says of others
}

func (b *blurred) Inspect(context.Context, string) (*fairlock.State, error) {
	return &fairlock.State{Waiting: b.waiting, Waiters: []fairlock.Waiter{{ID: "c:1"}}}, nil
}

func (b *blurred) Evict(_ context.Context, _, waiter string) error {
	if waiter != b.id {
		return b.refuses
	}
	b.id = ""
	return nil
}

func TestAWholeIDIsEvictedThoughALookAtTheLineDidNotShowIt(t *testing.T) {
	t.Parallel()
	for _, refuses := range []error{fairlock.ErrNotWaiting, &quorum.Error{Op: "evict", Name: "x", Err: quorum.ErrNotShown}} {
		b := &blurred{waiting: 501, id: "c:501", refuses: refuses}
		w, err := (&Evict{Name: "x", Waiter: "c:501"}).evict(locks.Locker{Interface: b})
		if err != nil || w.ID != "c:501" || b.id != "" {
			t.Errorf("%+v, %v", w, err)
		}
		_, err = (&Evict{Name: "x", Waiter: "c:501"}).evict(locks.Locker{Interface: b})
		if exit.Code(err) != exit.Nothing || errors.Is(err, refuses) || !strings.Contains(fmt.Sprint(err), `"c:501" is among the first 1 of 501 who wait for "x"`) {
			t.Errorf("once more: %v", err)
		}
	}
}

func TestABeginningThatIsNotAmongTheFirstInLineIsSaidToBeThat(t *testing.T) {
	t.Parallel()
	_, err := (&Evict{Name: "x", Waiter: "d"}).evict(locks.Locker{Interface: &blurred{waiting: 501}})
	if exit.Code(err) != exit.Nothing || !strings.Contains(fmt.Sprint(err), `"d" is among the first 1 of 501`) {
		t.Error(err)
	}
}
