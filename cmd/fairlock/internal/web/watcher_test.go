package web

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/survey"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

func TestNoMoreLocksAreLookedAtThanThereMayBe(t *testing.T) {
	t.Parallel()
	c := serves(t, redistest.Start(t).Addr(), false, "")
	c.shows(http.StatusOK, "/")
	for i := range mostViews + 10 {
		c.shows(http.StatusOK, in("/lock", fmt.Sprint("lock-", i)))
	}
	w := c.site.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.views[everything] == nil || len(w.views) != mostViews {
		t.Errorf("%d views", len(w.views))
	}
}

// slow makes every request but a PING take a while longer.
type slow time.Duration

func (slow) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s slow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "ping" {
			time.Sleep(time.Duration(s))
		}
		return next(ctx, cmd)
	}
}

func (slow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestAllViewsTogetherTakeNoMoreOfTheServerThanOneAlone(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	l := fairlock.New(rdb)
	t.Cleanup(func() { _ = l.Close() })
	w := newWatcher(rdb, []locks.Locker{{Kind: locks.Fair, Interface: l}})
	const work = 10 * time.Millisecond
	rdb.AddHook(slow(work))
	// rest is how long the server is left alone after a look at a lock.
	rest := func() time.Duration {
		k := key{locks.Fair, "0"}
		for range 10 {
			w.look(t.Context(), k)
		}
		return w.see(t.Context(), k).rest
	}
	ask := func(from, to int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i := from; i < to; i++ {
			w.ask(key{locks.Fair, fmt.Sprint(i)})
		}
	}
	ask(0, 1)
	if alone := rest(); alone < 100*work {
		t.Errorf("alone: %v after a look of %v", alone, work)
	}
	ask(1, 10)
	if among := rest(); among < 10*100*work {
		t.Errorf("among ten: %v after a look of %v", among, work)
	}
}

func TestWhatIsRememberedHasBoundsAndIsForgottenInTime(t *testing.T) {
	all := make(trails)
	now := time.UnixMilli(1_000_000)
	look := func(waiting int, names ...string) {
		p := &survey.Picture{At: now}
		for _, name := range names {
			p.Locks = append(p.Locks, survey.Lock{Kind: locks.Fair, Name: name, Waiting: waiting})
		}
		all.all(p, time.Second)
		now = now.Add(time.Second)
	}
	look(5, "gone")
	for range 1000 {
		look(1, "stays")
	}
	if n := len(all[key{locks.Fair, "stays"}]); n < 590 || n > 610 {
		t.Errorf("%d points in ten minutes of seconds", n)
	}
	if len(all) != 2 { // and everything
		t.Errorf("%d trails: what is idle for ten minutes is forgotten", len(all))
	}
	names := make([]string, 2*mostTrails)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	if look(1, names...); len(all) > mostTrails {
		t.Errorf("%d trails", len(all))
	}
}

func TestAPlotHasAGapWhereNobodyLooked(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(10_000_000)
	var trail []point
	for _, ago := range []int{110, 109, 60, 59} {
		trail = append(trail, newPoint(now.Add(-time.Duration(ago)*time.Second), 3, 0, time.Second))
	}
	p := plots(trail, now)[0]
	if n := strings.Count(p.Line, "M"); n != 2 || strings.Count(p.Area, "Z") != 2 {
		t.Errorf("%d parts: %s", n, p.Line)
	}
	if p.Title != "Waiting" || p.Now != "3" || p.Top != "5" || p.Ticks[0] != "2 min ago" {
		t.Errorf("%+v", p)
	}
	for _, empty := range plots(nil, now) {
		if empty.Line != "" || empty.Area != "" {
			t.Errorf("%+v", empty)
		}
	}
}

func TestWhatIsHeardIsKeptForTheLastOnly(t *testing.T) {
	t.Parallel()
	var all []happening
	for i := range 3 * kept {
		h, ok := newHappening(locks.Fair, fairlock.Overheard{Kind: fairlock.Acquired, Name: "x", Token: int64(i + 1)})
		if !ok {
			t.Fatal("it is nothing")
		}
		all = h.before(all)
	}
	if len(all) != kept || all[0].Token != 3*kept {
		t.Errorf("%d, the last of token %d", len(all), all[0].Token)
	}
	if _, ok := newHappening(locks.Fair, fairlock.Overheard{Kind: fairlock.Reconnected}); ok {
		t.Error("a new connection is nothing that happened to a lock")
	}
}

func TestThePageOfTheDocumentationNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/web.md")
	must(t, err)
	var source strings.Builder
	for _, pattern := range []string{"*_test.go", "../../web_test.go"} {
		files, err := filepath.Glob(pattern)
		must(t, err)
		for _, name := range files {
			file, err := os.ReadFile(name)
			must(t, err)
			source.Write(file)
		}
	}
	named := regexp.MustCompile(`\bTest\w+`).FindAllString(string(text), -1)
	if len(named) < 15 {
		t.Errorf("only %q", named)
	}
	for _, name := range named {
		if !strings.Contains(source.String(), "func "+name+"(") {
			t.Errorf("docs/web.md names %s, which is no test", name)
		}
	}
}
