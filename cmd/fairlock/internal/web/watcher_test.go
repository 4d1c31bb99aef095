package web

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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
