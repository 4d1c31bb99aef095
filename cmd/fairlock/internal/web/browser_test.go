package web

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// browser returns a headless Chromium that ends with the test. The test is skipped where there is
// none, unless FAIRLOCK_REQUIRE_CHROMIUM=1.
func browser(t testing.TB, options ...chromedp.ExecAllocatorOption) context.Context {
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
	options = append([]chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1280, 900), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WSURLReadTimeout(patienceOfTests),
	}, options...)
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
	if err := chromedp.Run(tab); err != nil {
		t.Fatalf("chromium does not start: %v", err)
	}
	return tab
}

// drive does these things in the browser, one after the other.
func drive(t testing.TB, tab context.Context, actions ...chromedp.Action) {
	t.Helper()
	for i, action := range actions {
		if err := chromedp.Run(tab, action); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

// untilIt waits until an expression is true in the page.
func untilIt(expression string) chromedp.Action {
	return chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(patienceOfTests))
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
	opened := make(chan string, 10)
	chromedp.ListenTarget(tab, func(event any) {
		if dialog, ok := event.(*page.EventJavascriptDialogOpening); ok {
			opened <- dialog.Message
		}
	})
	var shown, title string
	var foreign int
	drive(
		t, tab, chromedp.Navigate(c.url), live, chromedp.Text("tbody .name a", &shown),
		chromedp.Click("tbody .name a"), chromedp.WaitVisible("#force"), live,
		chromedp.Title(&title), chromedp.Evaluate(`document.querySelectorAll('main script, main img, main [onload]').length`, &foreign),
	)
	if shown != name || foreign != 0 || strings.Contains(title, "owned") && !strings.Contains(title, "<script>") {
		t.Errorf("shown as %q, titled %q, %d foreign elements", shown, title, foreign)
	}
	select {
	case message := <-opened:
		t.Errorf("it opened a dialog: %s", message)
	default:
	}
}

func TestAnOpenPageChangesAsTheLocksDoAndKeepsTheFocus(t *testing.T) {
	t.Parallel()
	tab := browser(t)
	s := redistest.Start(t)
	l := locker(t, s.Addr())
	take(t, l, "b", fairlock.Note("the holder"))
	c := serves(t, s.Addr(), false, "")
	var focused string
	drive(t, tab, chromedp.Navigate(c.url), live, chromedp.Focus("tbody .name a"), chromedp.SetValue("#q", "typed"))
	waits(t, l, "b")
	take(t, l, "a")
	drive(
		t, tab, untilIt(`document.querySelectorAll('tbody tr').length === 2 && document.querySelector('tbody td:nth-of-type(2)').textContent === '1'`),
		chromedp.Evaluate(`document.activeElement.textContent + ' ' + document.getElementById('q').value`, &focused),
	)
	if focused != "b typed" {
		t.Errorf("the focus is at %q", focused)
	}
	drive(t, tab, chromedp.Click("#pause"), untilIt(`document.getElementById('state').textContent === 'paused'`))
	eventually(t, "the stream is closed", func() bool { return len(c.site.streams) == 0 })
	drive(t, tab, chromedp.Click("#pause"), live)
}

func TestALockIsForcedByTheKeyboardAlone(t *testing.T) {
	t.Parallel()
	tab := browser(t)
	s := redistest.Start(t)
	lease := take(t, locker(t, s.Addr()), "nightly", fairlock.Note("build-7"))
	next := waits(t, locker(t, s.Addr()), "nightly", fairlock.Note("build-8"))
	c := serves(t, s.Addr(), true, token)
	// tabTo presses Tab until the element of this id has the focus, and then Enter.
	tabTo := func(id string) chromedp.Action {
		return chromedp.ActionFunc(func(ctx context.Context) error {
			for range 40 {
				var at string
				if err := chromedp.Run(ctx, chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(`document.activeElement.id || document.activeElement.textContent`, &at)); err != nil {
					return err
				}
				if at == id {
					return chromedp.KeyEvent(kb.Enter).Do(ctx)
				}
			}
			return fmt.Errorf("no way to %s by Tab", id)
		})
	}
	var ring string
	drive(
		t, tab, chromedp.Navigate(strings.Replace(c.url, "://", "://me:"+token+"@", 1)), live,
		tabTo(short("lock", "fair", "nightly")+"-a"), chromedp.WaitVisible("#force"), live,
		tabTo("force"), chromedp.WaitVisible("#sure"),
		chromedp.Focus("#cancel"), chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(`getComputedStyle(document.activeElement).outlineStyle`, &ring),
		chromedp.KeyEvent(kb.Enter), chromedp.WaitNotPresent("#sure"), chromedp.WaitVisible("#back"),
	)
	if ring != "solid" {
		t.Errorf("the focus is not seen: %q", ring)
	}
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
			var over int
			drive(t, tab, chromedp.EmulateViewport(width, 640), chromedp.Navigate(c.url+path), chromedp.Evaluate(`document.documentElement.scrollWidth - innerWidth`, &over))
			if over > 0 {
				t.Errorf("%s is %d pixels too wide for %d", path[:min(len(path), 40)], over, width)
			}
		}
	}
}
