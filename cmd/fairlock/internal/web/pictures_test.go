package web

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

var (
	pictures = flag.String("pictures", "", "write pictures of the page into this folder")
	during   = flag.Duration("during", 2*time.Minute, "how long to have something happen before -pictures")
)

// traffic is work under one lock by several processes.
type traffic struct {
	name    string
	workers int
	hold    time.Duration
	note    string
}

// TestPictures takes the pictures of docs/web.md. It is no test: it runs with -pictures only.
//
//	go test ./internal/web -run Pictures -timeout 30m -pictures ../../../../docs/web
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("there is no -pictures")
	}
	tab := browser(t)
	s := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(cancel)
	plans := []traffic{
		{"stock:sku-20418", 14, 40 * time.Millisecond, "web-%d checkout"},
		{"payout:eu-west", 9, 700 * time.Millisecond, "payout-%d"},
		{"nightly", 3, time.Hour, "build-%d:4242 backup.sh"},
		{"invoice:2026-11", 6, 250 * time.Millisecond, "billing-%d close"},
		{"search/reindex", 2, 20 * time.Second, "indexer-%d"},
		{"migrate", 1, time.Hour, "deploy-%d schema"},
	}
	for i := range 22 {
		plans = append(plans, traffic{fmt.Sprintf("order:%d", 41877+13*i*i), 1 + i%3, time.Duration(80+170*i) * time.Millisecond, "web-%d charge"})
	}
	var workers []*fairlock.Locker
	for range 14 {
		workers = append(workers, locker(t, s.Addr()))
	}
	for _, p := range plans {
		for i := range p.workers {
			all.Go(func() { works(ctx, workers[i%len(workers)], p, i) })
		}
	}
	c := serves(t, s.Addr(), true, "")
	c.site.server = "locks.example:6379"
	c.listens("/events")
	c.listens(in("/events", "payout:eu-west"))
	select {
	case <-time.After(*during):
	case <-t.Context().Done():
	}
	state, err := workers[0].Inspect(t.Context(), "nightly")
	must(t, err)
	for _, page := range []struct{ name, path string }{
		{"all", "/"}, {"lock", in("/lock", "payout:eu-west")}, {"force", in("/force", "nightly", "token", fmt.Sprint(state.Holder.Token))},
	} {
		for _, size := range []struct{ wide, high int64 }{{1280, 860}, {768, 900}, {360, 740}} {
			for _, scheme := range []string{"light", "dark"} {
				if page.name == "force" && size.wide != 360 {
					continue
				}
				drive(t, tab, chromedp.EmulateViewport(size.wide, size.high), chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
					_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
					return err
				}), chromedp.Navigate(c.url+page.path))
				if page.name != "force" {
					drive(t, tab, live)
				}
				image, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
				must(t, err)
				must(t, os.WriteFile(filepath.Join(*pictures, fmt.Sprintf("%s-%d-%s.png", page.name, size.wide, scheme)), image, 0o644))
			}
		}
	}
}

// works takes the lock again and again, with a pause in between now and then.
func works(ctx context.Context, l *fairlock.Locker, p traffic, i int) {
	for ctx.Err() == nil {
		lease, err := l.Lock(ctx, p.name, fairlock.Note(fmt.Sprintf(p.note, i+1)))
		if err != nil {
			return
		}
		nap(ctx, time.Duration(float64(p.hold)*(0.5+rand.Float64())))
		_ = lease.Unlock(ctx)
		if rand.IntN(12) == 0 {
			nap(ctx, time.Duration(rand.IntN(12))*p.hold)
		}
	}
}

func nap(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
