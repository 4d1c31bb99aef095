package fairlock_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlock/locks/test/faultproxy"
)

// onUnwritable runs the test on real servers that refuse to write for a while, with both kinds of
// lock.
func onUnwritable(t *testing.T, test func(f *faulty, begins, passes func(), waits func(*faultUser) *faultWait)) {
	t.Helper()
	states := map[string]func(f *faulty) (begins, passes func()){
		"too few replicas": func(f *faulty) (begins, passes func()) {
			set := func(n string) func() {
				return func() { f.must(f.direct.ConfigSet(faultCtx, "min-replicas-to-write", n).Err()) }
			}
			return set("1"), set("0")
		},
		"a disk that cannot be written": func(f *faulty) (begins, passes func()) {
			f.must(f.direct.ConfigSet(faultCtx, "save", "3600 1000000").Err())
			dump := filepath.Join(f.direct.ConfigGet(faultCtx, "dir").Val()["dir"], f.direct.ConfigGet(faultCtx, "dbfilename").Val()["dbfilename"])
			saves := func(status string) {
				f.Helper()
				f.must(f.direct.BgSave(faultCtx).Err())
				f.until("it has saved", func() bool {
					return strings.Contains(f.direct.Info(faultCtx, "persistence").Val(), "rdb_last_bgsave_status:"+status)
				})
			}
			begins = func() {
				f.must(os.RemoveAll(dump))
				f.must(os.Mkdir(dump, 0o700)) // no file takes the place of a folder
				saves("err")
			}
			return begins, func() { f.must(os.Remove(dump)); saves("ok") }
		},
	}
	tests := make(map[string]func(*testing.T))
	for name, state := range states {
		tests[name+", fair"] = func(t *testing.T) {
			f := newFaulty(t)
			begins, passes := state(f)
			test(f, begins, passes, func(u *faultUser) *faultWait { return u.queues("x", f.line("x")+1) })
		}
		tests[name+", plain"] = func(t *testing.T) {
			f := newFaulty(t).plain()
			begins, passes := state(f)
			test(f, begins, passes, func(u *faultUser) *faultWait { return u.waitsPlainly("x") })
		}
	}
	together(t, tests)
}

func TestWhoWaitsAndWhoHoldsOutlastAServerThatMayNotWrite(t *testing.T) {
	onUnwritable(t, func(f *faulty, begins, passes func(), waits func(*faultUser) *faultWait) {
		lease := f.beside().locks("x")
		u := f.behind()
		first, second, third := waits(u), waits(u), waits(u)
		begins()
		refused := f.all(f.verb("enter"), faultproxy.Observe())
		refused.WaitExecuted(f, 2, faultPatience)
		first.waits()
		third.waits()

		unlocked := make(chan struct{})
		f.ends(lease)
		go func() {
			defer close(unlocked)
			if err := lease.Unlock(faultCtx); err != nil {
				f.Errorf("Unlock: %v", err)
			}
		}()
		leaves := f.all(f.verb("leave"), faultproxy.Observe())
		second.cancel()
		second.fails()
		if f.line("x") > 0 { // a plain lock has none to leave
			leaves.WaitExecuted(f, 2, faultPatience)
		}
		passes()
		<-unlocked
		f.served(first, third)
		f.until("nothing is left", func() bool { return f.holder("x") == 0 && f.line("x") == 0 })
	})
}
