package faults

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

// onUnwritable runs the test with both kinds of lock, on real servers that refuse writes for a
// while.
func onUnwritable(t *testing.T, test func(f *faulty, begins, passes func(), waits func(*world.User) *world.Wait)) {
	t.Helper()
	states := map[string]func(f *faulty) (begins, passes func()){
		"too few replicas": func(f *faulty) (begins, passes func()) {
			set := func(n string) func() {
				return func() { f.Must(f.Direct.ConfigSet(background, "min-replicas-to-write", n).Err()) }
			}
			return set("1"), set("0")
		},
		"a disk that cannot be written": func(f *faulty) (begins, passes func()) {
			f.Must(f.Direct.ConfigSet(background, "save", "3600 1000000").Err())
			dump := filepath.Join(f.Direct.ConfigGet(background, "dir").Val()["dir"], f.Direct.ConfigGet(background, "dbfilename").Val()["dbfilename"])
			saves := func(status string) {
				f.Helper()
				f.Must(f.Direct.BgSave(background).Err())
				f.Until("it has saved", func() bool {
					return strings.Contains(f.Direct.Info(background, "persistence").Val(), "rdb_last_bgsave_status:"+status)
				})
			}
			begins = func() {
				f.Must(os.RemoveAll(dump))
				f.Must(os.Mkdir(dump, 0o700)) // a file cannot replace a folder
				saves("err")
			}
			return begins, func() { f.Must(os.Remove(dump)); saves("ok") }
		},
	}
	tests := make(map[string]func(*testing.T))
	for name, state := range states {
		tests[name+", fair"] = func(t *testing.T) {
			f := newFaulty(t)
			begins, passes := state(f)
			test(f, begins, passes, func(u *world.User) *world.Wait { return u.Queues("x", f.Line("x")+1) })
		}
		tests[name+", plain"] = func(t *testing.T) {
			f := newFaulty(t).plain()
			begins, passes := state(f)
			test(f, begins, passes, func(u *world.User) *world.Wait { return u.WaitsPlainly("x") })
		}
	}
	world.Together(t, tests)
}

func TestWhoWaitsAndWhoHoldsOutlastAServerThatMayNotWrite(t *testing.T) {
	onUnwritable(t, func(f *faulty, begins, passes func(), waits func(*world.User) *world.Wait) {
		lease := f.Beside().Locks("x")
		u := f.Behind()
		first, second, third := waits(u), waits(u), waits(u)
		begins()
		refused := f.All(f.Verb("enter"), faultproxy.Observe())
		refused.WaitExecuted(f, 2, world.Patience)
		first.Waits()
		third.Waits()

		unlocked := make(chan struct{})
		f.Ends(lease)
		go func() {
			defer close(unlocked)
			if err := lease.Unlock(background); err != nil {
				f.Errorf("Unlock: %v", err)
			}
		}()
		leaves := f.All(f.Verb("leave"), faultproxy.Observe())
		second.Cancel()
		second.Fails()
		if f.Line("x") > 0 { // a plain lock has no line to leave
			leaves.WaitExecuted(f, 2, world.Patience)
		}
		passes()
		<-unlocked
		f.Served(first, third)
		f.Until("nothing is left", func() bool { return f.Holder("x") == 0 && f.Line("x") == 0 })
	})
}
