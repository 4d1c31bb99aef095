package web

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
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
	workers := busies(t, s.Addr())
	c := serves(t, s.Addr(), true, "")
	c.site.server = "locks.example:6379"
	var browsers sync.WaitGroup
	for _, path := range []string{"/events", in("/events", "payout:eu-west")} {
		open := c.listens(path)
		browsers.Go(open.drain)
		t.Cleanup(browsers.Wait)
		t.Cleanup(open.close)
	}
	nap(t.Context(), *during)
	state, err := workers[0].Inspect(t.Context(), "nightly")
	must(t, err)
	tab := browser(t)
	for _, page := range []struct{ name, path string }{
		{"all", "/"}, {"lock", in("/lock", "payout:eu-west")}, {"force", in("/force", "nightly", "token", fmt.Sprint(state.Holder.Token))},
	} {
		for _, size := range []struct{ wide, high int64 }{{1280, 860}, {768, 900}, {360, 740}} {
			for _, scheme := range []string{"light", "dark"} {
				if page.name == "force" && size.wide != 360 {
					continue
				}
				drive(t, tab, chromedp.EmulateViewport(size.wide, size.high), prefers(scheme), chromedp.Navigate(c.url+page.path))
				if page.name != "force" {
					drive(t, tab, live)
				}
				picture, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
				must(t, err)
				name := fmt.Sprintf("%s-%d-%s.png", page.name, size.wide, scheme)
				must(t, os.WriteFile(filepath.Join(*pictures, name), smaller(t, picture), 0o600))
			}
		}
	}
}

// prefers makes the browser prefer a light or a dark page.
func prefers(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}

// busies has workers at locks of several kinds of work until the end of the test.
func busies(t *testing.T, redisAt string) (workers []*fairlock.Locker) {
	t.Helper()
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
	for range 14 {
		workers = append(workers, locker(t, redisAt))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(cancel)
	for _, p := range plans {
		for i := range p.workers {
			all.Go(func() { works(ctx, workers[i%len(workers)], p, i) })
		}
	}
	return workers
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

// smaller is the picture in at most 256 colours: its most frequent ones, and of each region of the
// others the most frequent.
func smaller(t *testing.T, picture []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(picture))
	must(t, err)
	frame := full.Bounds()
	often := make(map[color.NRGBA]int)
	for y := range frame.Dy() {
		for x := range frame.Dx() {
			often[color.NRGBAModel.Convert(full.At(x, y)).(color.NRGBA)]++
		}
	}
	var palette color.Palette
	regions := make(map[color.NRGBA]bool)
	for i, c := range slices.SortedFunc(maps.Keys(often), func(a, b color.NRGBA) int { return often[b] - often[a] }) {
		region := color.NRGBA{c.R >> 4, c.G >> 4, c.B >> 4, 0}
		if len(palette) < 256 && (i < 64 || !regions[region]) {
			palette = append(palette, c)
			regions[region] = true
		}
	}
	indexed := image.NewPaletted(frame, palette)
	draw.Draw(indexed, frame, full, frame.Min, draw.Src)
	var out bytes.Buffer
	must(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, indexed))
	return out.Bytes()
}
