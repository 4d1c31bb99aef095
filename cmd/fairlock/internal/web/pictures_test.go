package web

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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
	during   = flag.Duration("during", 110*time.Second, "how long to have something happen before the first of them")
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
	for _, path := range []string{"/events", in("/events", "payout:eu-west")} {
		browser := c.listens(path)
		all.Go(browser.drain)
		defer browser.close()
	}
	select {
	case <-time.After(*during):
	case <-t.Context().Done():
	}
	tab := browser(t)
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
				picture, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
				must(t, err)
				must(t, os.WriteFile(filepath.Join(*pictures, fmt.Sprintf("%s-%d-%s.png", page.name, size.wide, scheme)), smaller(t, picture), 0o644))
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

// smaller is the picture in its 256 most frequent colours.
func smaller(t *testing.T, picture []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(picture))
	must(t, err)
	frame := full.Bounds()
	often := make(map[color.Color]int)
	each := func(do func(x, y int, c color.Color)) {
		for y := range frame.Dy() {
			for x := range frame.Dx() {
				c := color.NRGBAModel.Convert(full.At(x, y)).(color.NRGBA)
				do(x, y, color.NRGBA{c.R &^ 3, c.G &^ 3, c.B &^ 3, 255})
			}
		}
	}
	each(func(_, _ int, c color.Color) { often[c]++ })
	palette := slices.SortedFunc(maps.Keys(often), func(a, b color.Color) int { return often[b] - often[a] })
	indexed := image.NewPaletted(frame, palette[:min(256, len(palette))])
	near := make(map[color.Color]int)
	each(func(x, y int, c color.Color) {
		if _, ok := near[c]; !ok {
			near[c] = indexed.Palette.Index(c)
		}
		indexed.SetColorIndex(x, y, uint8(near[c]))
	})
	var out bytes.Buffer
	must(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, indexed))
	return out.Bytes()
}
