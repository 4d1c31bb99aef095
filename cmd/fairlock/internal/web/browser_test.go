package web

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// browser returns a headless Chromium that ends with the test. The test is skipped where there is
// none, unless FAIRLOCK_REQUIRE_CHROMIUM=1.
func browser(t testing.TB) context.Context {
	t.Helper()
	var program string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" {
		if os.Getenv("FAIRLOCK_REQUIRE_CHROMIUM") == "1" {
			t.Fatal("FAIRLOCK_REQUIRE_CHROMIUM=1, but there is no chromium on the PATH")
		}
		t.Skip("NOT SHOWN: what the page of fairlock web does in a browser. There is no chromium on the PATH.")
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1280, 900), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WSURLReadTimeout(patienceOfTests),
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses to run as root with one
	}
	bounded, cancel := context.WithTimeout(context.Background(), patienceOfTests)
	allocator, release := chromedp.NewExecAllocator(bounded, options...)
	tab, _ := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(tab) // closes the browser and waits for its end
		release()
		chromedp.FromContext(allocator).Allocator.Wait()
		cancel()
	})
	if err := chromedp.Do(tab); err != nil {
		t.Fatalf("chromium does not start: %v", err)
	}
	return tab
}

// drive does these things in the browser, one after the other.
func drive(t testing.TB, tab context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	for i, action := range actions {
		if err := chromedp.Do(tab, action); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

// find gets a value of an expression in the page.
func find[T any](t testing.TB, tab context.Context, expression string) T {
	t.Helper()
	value, err := chromedp.Run(tab, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// untilIt waits until an expression is true in the page.
func untilIt(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(patienceOfTests))(ctx, tab)
		return err
	})
}

// live waits until the page has been told something.
var live = untilIt(`document.getElementById('state').textContent === 'live'`)

func TestALockCalledScriptRunsNothingInABrowser(t *testing.T) {
	t.Parallel()
	tab := browser(t)
	s := redistest.Start(t)
	l := locker(t, s.Addr())
	const name = `<script>alert(1)</script><img src=x onerror="document.title='owned'">`
	take(t, l, name, fairlock.Note(name), fairlock.WithOwner(`"><svg onload=alert(2)>`))
	waits(t, l, name, fairlock.Note(name))
	c := serves(t, s.Addr(), true, "")
	drive(t, tab, chromedp.Navigate(c.url), live)
	if shown := find[string](t, tab, `document.querySelector('tbody .name a').textContent`); shown != name {
		t.Errorf("shown as %q", shown)
	}
	// A dialog would stop the page for good.
	drive(t, tab, chromedp.Click(chromedp.CSS("tbody .name a")), chromedp.WaitVisible(chromedp.CSS("#force")), live)
	if n := find[int](t, tab, `document.querySelectorAll('main script, main img, main [onload]').length`); n > 0 {
		t.Errorf("%d elements of the name", n)
	}
	// Should a script get into the page after all, the policy keeps it from running.
	const added = `(() => { const s = document.createElement('script'); s.textContent = 'window.owned = 1'; document.body.append(s); return window.owned || 0 })()`
	if find[int](t, tab, added) != 0 {
		t.Error("a script that stands in the page runs")
	}
	if title := find[string](t, tab, `document.title`); !strings.HasPrefix(title, name) {
		t.Errorf("titled %q", title)
	}
}

func TestAnOpenPageChangesAsTheLocksDoAndKeepsTheFocus(t *testing.T) {
	t.Parallel()
	tab := browser(t)
	s := redistest.Start(t)
	l := locker(t, s.Addr())
	take(t, l, "b", fairlock.Note("the holder"))
	c := serves(t, s.Addr(), false, "")
	drive(t, tab, chromedp.Navigate(c.url), live, chromedp.Focus(chromedp.CSS("tbody .name a")), untilIt(`(document.getElementById('q').value = 'typed') === 'typed'`))
	waits(t, l, "b")
	take(t, l, "a")
	drive(t, tab, untilIt(`document.querySelectorAll('tbody tr').length === 2 && document.querySelector('tbody td:nth-of-type(2)').textContent === '1'`))
	if at := find[string](t, tab, `document.activeElement.textContent + ' ' + document.getElementById('q').value`); at != "b typed" {
		t.Errorf("the focus is at %q", at)
	}
	drive(t, tab, chromedp.Click(chromedp.CSS("#pause")), untilIt(`document.getElementById('state').textContent === 'paused'`))
	eventually(t, "the stream is closed", func() bool { return len(c.site.streams) == 0 })
	drive(t, tab, chromedp.Click(chromedp.CSS("#pause")), live)
}

// tabsTo presses Tab until the element of this id has the focus.
func tabsTo(t testing.TB, tab context.Context, id string) {
	t.Helper()
	var way []string
	for range 30 {
		drive(t, tab, chromedp.KeyEvent(kb.Tab))
		at := find[string](t, tab, `document.activeElement.id || document.activeElement.textContent`)
		if at == id {
			if ring := find[string](t, tab, `getComputedStyle(document.activeElement).outlineStyle`); ring != "solid" {
				t.Errorf("nobody sees that the focus is at %s: %q", id, ring)
			}
			return
		}
		way = append(way, at)
	}
	t.Fatalf("no way to %s by Tab: %q", id, way)
}

func TestALockIsForcedByTheKeyboardAlone(t *testing.T) {
	t.Parallel()
	tab := browser(t)
	s := redistest.Start(t)
	lease := take(t, locker(t, s.Addr(), soon), "nightly", fairlock.Note("build-7"))
	next := waits(t, locker(t, s.Addr()), "nightly", fairlock.Note("build-8"))
	c := serves(t, s.Addr(), true, token)
	enter := chromedp.KeyEvent(kb.Enter)
	drive(t, tab, chromedp.Navigate(strings.Replace(c.url, "://", "://me:"+token+"@", 1)), live)
	tabsTo(t, tab, short("lock", "fair", "nightly")+"-a")
	drive(t, tab, enter, chromedp.WaitVisible(chromedp.CSS("#force")), live)
	tabsTo(t, tab, "force")
	drive(t, tab, enter, chromedp.WaitVisible(chromedp.CSS("#sure")))
	tabsTo(t, tab, "sure")
	drive(t, tab, enter, chromedp.WaitNotPresent(chromedp.CSS("#sure")), chromedp.WaitVisible(chromedp.CSS("#back")))
	<-lease.Done()
	must(t, <-next)
}

func TestNothingMakesANarrowPageScrollSideways(t *testing.T) {
	t.Parallel()
	tab := browser(t)
	s := redistest.Start(t)
	l := locker(t, s.Addr())
	for _, name := range []string{"order:42", strings.Repeat("W", 512), strings.Repeat("a-b ", 60)} {
		take(t, l, name, fairlock.Note(strings.Repeat("n", 256)))
	}
	lease := take(t, locker(t, s.Addr()), "long/"+strings.Repeat("x", 200), fairlock.WithOwner(strings.Repeat("o", 256)))
	waits(t, locker(t, s.Addr()), lease.Name(), fairlock.WithOwner(strings.Repeat("w", 256)), fairlock.Note(strings.Repeat("n", 256)))
	c := serves(t, s.Addr(), true, "")
	for _, path := range []string{"/", in("/lock", lease.Name()), in("/force", lease.Name(), "token", fmt.Sprint(lease.Token()))} {
		for _, width := range []int64{320, 360, 768, 1280} {
			drive(t, tab, chromedp.EmulateViewport(width, 640), chromedp.Navigate(c.url+path))
			if over := find[int](t, tab, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				wide := find[[]string](t, tab, `[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth).map(e => e.tagName + '.' + e.className)`)
				t.Errorf("%s is %d pixels too wide for %d: %q", path[:min(len(path), 40)], over, width, wide)
			}
		}
	}
}

func TestAPageWhoseServerIsGoneSaysSo(t *testing.T) {
	t.Parallel()
	tab := browser(t)
	s := redistest.Start(t)
	take(t, locker(t, s.Addr()), "order:42")
	c := serves(t, s.Addr(), false, "")
	drive(t, tab, chromedp.Navigate(c.url), live)
	c.stop()
	drive(t, tab, untilIt(`document.getElementById('state').textContent === 'fairlock web does not answer'`))
	if rows := find[int](t, tab, `document.querySelectorAll('tbody tr').length`); rows != 1 {
		t.Error("what it saw is gone")
	}
}
