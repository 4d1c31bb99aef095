package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/redistest"
)

func TestThePageShowsEachLockItsHolderAndItsLine(t *testing.T) {
	servers(t, func(t *testing.T, redisAt string) {
		l := locker(t, redisAt)
		lease := take(t, l, "order:42", fairlock.Note("web-1 charge"))
		waits(t, l, "order:42", fairlock.WithOwner("saga-7"), fairlock.Note("step 2"))
		waits(t, l, "order:42", fairlock.Note("web-2 refund"))
		c := serves(t, redisAt, false, "")
		body := c.shows(http.StatusOK, "/", ">order:42</a>", "web-1 charge", "<dt>Waiting</dt><dd>2</dd>", "read-only")
		if strings.Contains(body, "Force") {
			t.Error("a page that only shows offers to force")
		}
		c.shows(http.StatusOK, in("/lock", "order:42"), "Held by <b>web-1 charge</b>", fmt.Sprint(lease.Token()), "saga-7 (step 2)", "web-2 refund", "In line <small>2</small>")
		c.shows(http.StatusOK, in("/lock", "another"), "Nobody has it.", "Nobody waits.")
	})
}

func TestThePageSaysInWhichTimeZoneItsTimesAre(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	take(t, locker(t, s.Addr()), "order:42")
	c := serves(t, s.Addr(), false, "")
	here := strings.ReplaceAll(time.Now().Format("UTC-07:00"), "+", "&#43;")
	c.shows(http.StatusOK, "/", "All times are "+here)
	c.shows(http.StatusOK, in("/lock", "order:42"), "All times are "+here, " "+here+"</dd>")
}

func TestPlainLocksAreShownAsSuch(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := reentrant.New(s.Client(t))
	t.Cleanup(func() { _ = l.Close() })
	take(t, l, "cache", fairlock.Note("the refresher"))
	c := serves(t, s.Addr(), true, "")
	c.shows(http.StatusOK, "/", `href="/lock?kind=plain&amp;name=cache"`, "<small>plain</small>", "the refresher")
	c.shows(http.StatusOK, "/lock?kind=plain&name=cache", "Held by <b>the refresher</b>", "its own process only", "Force…")
}

func TestNothingIsSaidOfTheLinesOfPlainLocksAlone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	body := servesUnder(t, "", s.Addr(), false, "", locks.Plain).shows(http.StatusOK, "/", "0 held · ")
	if strings.Contains(body, "0 waiting") || strings.Contains(body, "<dt>Waiting</dt>") {
		t.Errorf("it shows how many wait: %s", body)
	}
}

func TestThePageOfNoLockIsNotOneOfAKindThatWasNotChosen(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := servesUnder(t, "", s.Addr(), false, "", locks.Plain)
	c.shows(http.StatusNotFound, "/lock", "does not show fair locks")
	c.shows(http.StatusNotFound, "/lock?name=x", "does not show fair locks")
	c.shows(http.StatusOK, "/", "")
}

func TestTheTableIsFilteredSortedAndInPages(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := locker(t, s.Addr())
	for i := range perPage + 1 {
		take(t, l, fmt.Sprintf("lock-%03d", i))
	}
	take(t, l, "odd", fairlock.Note("Somebody"))
	waits(t, l, "odd")
	c := serves(t, s.Addr(), false, "")
	body := c.shows(http.StatusOK, "/", "1 to 100 of 102")
	if strings.Index(body, ">odd<") > strings.Index(body, ">lock-000<") {
		t.Error("the lock that is waited for is not the first")
	}
	c.shows(http.StatusOK, "/?sort=name&from=100", "101 to 102 of 102", ">lock-100<", ">odd<")
	body = c.shows(http.StatusOK, "/?q=someBODY", ">odd<")
	if strings.Contains(body, ">lock-000<") {
		t.Error("the filter lets all through")
	}
	for _, nonsense := range []string{"/?from=-1", "/?from=x", "/?from=999999", "/?sort=x"} {
		c.shows(http.StatusOK, nonsense, "1 to 100 of 102")
	}
	c.shows(http.StatusOK, "/?q=nothing+like+it", "No lock is like this.")
}

// evil would do something wherever in a page it stood unescaped.
const evil = `<script>alert(1)</script>"'><img src=x onerror=alert(2)>{{.}}` + "\r\n\r\ndata: {}\x00\xff\u202e"

func TestNothingThatAnybodyMayNameIsAnythingButText(t *testing.T) {
	servers(t, func(t *testing.T, redisAt string) {
		l := locker(t, redisAt)
		take(t, l, evil, fairlock.WithOwner("o"+evil), fairlock.Note("n"+evil))
		waits(t, l, evil, fairlock.WithOwner("w"+evil), fairlock.Note("m"+evil))
		waits(t, l, evil, fairlock.Note("m"+evil))
		state, err := l.Inspect(t.Context(), evil)
		must(t, err)
		c := serves(t, redisAt, true, "")
		for _, path := range []string{
			"/", "/?q=%3Cscript%3E&sort=%3Cscript%3E", in("/lock", evil),
			in("/force", evil, "token", fmt.Sprint(state.Holder.Token)), in("/evict", evil, "id", state.Waiters[0].ID),
		} {
			body := c.shows(http.StatusOK, path, "alert(1)")
			harmless(t, path, body)
		}
		for _, path := range []string{in("/force", evil, "token", evil), in("/evict", evil, "id", evil), in("/evict", evil+"2", "id", "x")} {
			harmless(t, path, c.shows(http.StatusConflict, path))
		}
		events := c.listens(in("/events", evil))
		harmless(t, "the events", events.next().HTML)
		harmless(t, "the next event", events.next().HTML)
	})
}

// harmless fails if a browser would take a part of a name for anything but text.
func harmless(t *testing.T, what, body string) {
	t.Helper()
	ours := strings.ReplaceAll(body, `<script src="/page.js" defer></script>`, "")
	for _, bad := range []string{"<script", "<img", "\r", "\x00", "\u202e", `"'>`} {
		if strings.Contains(ours, bad) {
			t.Errorf("%s: has %q", what, bad)
		}
	}
}

func TestANameThatIsNoNameIsRefusedAndAHugeOneIsShown(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	huge := strings.Repeat("W", 512)
	take(t, locker(t, s.Addr()), huge, fairlock.Note(strings.Repeat("n", 256)))
	c := serves(t, s.Addr(), true, "")
	c.shows(http.StatusOK, "/", huge)
	c.shows(http.StatusOK, in("/lock", huge), huge)
	c.shows(http.StatusBadRequest, in("/lock", huge+"W"))
	c.shows(http.StatusBadRequest, "/lock?name=")
	c.shows(http.StatusBadRequest, in("/force", huge+"W", "token", "1"))
	c.shows(http.StatusBadRequest, "/force?token=1")
	status, _, _ := c.asks(http.MethodGet, in("/lock", strings.Repeat("W", 1<<20)), nil)
	if status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a megabyte: %d", status)
	}
}

func TestTenThousandLocksAreShownInPages(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	pipe := rdb.Pipeline()
	const many = 10_000
	take(t, locker(t, s.Addr()), "model", fairlock.Note("the holder"), fairlock.LeaseFor(time.Hour))
	record, err := rdb.Dump(t.Context(), "fairlock:lock:{model}").Result()
	must(t, err)
	for i := range many - 1 {
		pipe.Restore(t.Context(), fmt.Sprintf("fairlock:lock:{copy-%05d}", i), time.Hour, record)
	}
	_, err = pipe.Exec(t.Context())
	must(t, err)
	c := serves(t, s.Addr(), false, "")
	body := c.shows(http.StatusOK, "/?sort=name", "1 to 100 of 10,000", "copy-00099")
	if strings.Contains(body, "copy-00100") || len(body) > 200_000 {
		t.Errorf("the page has %d bytes", len(body))
	}
	c.shows(http.StatusOK, "/?sort=name&from=9900", "9,901 to 10,000 of 10,000", "model")
}

func TestWhileTheRedisIsGoneThePageSaysSoAndShowsWhatItSaw(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := locker(t, s.Addr())
	lease := take(t, l, "order:42")
	c := serves(t, s.Addr(), true, "")
	ask := in("/force", "order:42", "token", fmt.Sprint(lease.Token()))
	seal := sealIn(t, c.shows(http.StatusOK, ask))
	c.shows(http.StatusOK, "/", "order:42")
	events := c.listens("/events")
	events.next()
	s.Kill()
	eventually(t, "the stream says so", func() bool { return strings.Contains(events.next().HTML, "No look since") })
	c.shows(http.StatusServiceUnavailable, "/", "No look since", "order:42")
	c.shows(http.StatusServiceUnavailable, in("/lock", "never seen"), "No look since")
	if status, _, body := c.asks(http.MethodPost, ask, map[string][]string{"seal": {seal}}); status != http.StatusBadGateway {
		t.Errorf("%d %s", status, body)
	}
	s.Restart()
	eventually(t, "it is seen again", func() bool { return !strings.Contains(events.next().HTML, "No look since") })
	c.shows(http.StatusOK, "/")
}
