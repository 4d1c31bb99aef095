package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
)

// does posts the form of a page with this seal.
func (c *served) does(want int, path, seal string, texts ...string) {
	c.t.Helper()
	status, _, body := c.asks(http.MethodPost, path, url.Values{"seal": {seal}}, header("Origin", c.url), header("Sec-Fetch-Site", "same-origin"))
	if status != want {
		c.t.Fatalf("POST %s: %d, want %d\n%s", path, status, want, body)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			c.t.Errorf("POST %s does not say %q:\n%s", path, text, body)
		}
	}
}

func TestForceSaysWhatWillHappenAndThenItHappens(t *testing.T) {
	servers(t, func(t *testing.T, redisAt string) {
		lease := take(t, locker(t, redisAt, soon), "nightly", fairlock.Note("build-7 backup"))
		next := waits(t, locker(t, redisAt), "nightly", fairlock.Note("build-8 backup"))
		c := serves(t, redisAt, true, "")
		c.shows(http.StatusOK, in("/lock", "nightly"), "Force…")
		ask := in("/force", "nightly", "token", fmt.Sprint(lease.Token()))
		page := c.shows(http.StatusOK, ask, "Force nightly?", "build-7 backup loses the lock", fmt.Sprint(lease.Token()), "The next of 1 in line has it then: build-8 backup", "nothing is done")
		if lease.Err() != nil {
			t.Fatal("to ask has forced it")
		}
		c.does(http.StatusOK, ask, sealIn(t, page), "was ended", "build-8 backup has it now")
		<-lease.Done()
		must(t, <-next)
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.changes) != 1 || c.changes[0].Verb != "force" || c.changes[0].Name != "nightly" || c.changes[0].Who != "build-7 backup" || c.changes[0].Whose != fmt.Sprint(lease.Token()) {
			t.Errorf("the record: %+v", c.changes)
		}
	})
}

func TestForceDoesNothingToWhoHasTheLockNow(t *testing.T) {
	servers(t, func(t *testing.T, redisAt string) {
		lease := take(t, locker(t, redisAt), "nightly")
		next := waits(t, locker(t, redisAt), "nightly", fairlock.Note("the next"))
		c := serves(t, redisAt, true, "")
		ask := in("/force", "nightly", "token", fmt.Sprint(lease.Token()))
		seal := sealIn(t, c.shows(http.StatusOK, ask))
		must(t, lease.Unlock(t.Context()))
		must(t, <-next)
		c.does(http.StatusConflict, ask, seal, "by the next. Nothing was done")
		state, err := locker(t, redisAt).Inspect(t.Context(), "nightly")
		must(t, err)
		// The seal of one ownership is not that of another.
		c.does(http.StatusForbidden, in("/force", "nightly", "token", fmt.Sprint(state.Holder.Token)), seal)
		c.does(http.StatusConflict, in("/force", "free", "token", "1"), seal, "Nobody has it any more")
		if after, err := locker(t, redisAt).Inspect(t.Context(), "nightly"); err != nil || after.Holder == nil || after.Holder.Token != state.Holder.Token {
			t.Errorf("%+v, %v", after, err)
		}
		if len(c.changes) != 0 {
			t.Errorf("the record: %+v", c.changes)
		}
	})
}

func TestAForceThatTheRedisDidNotAnswerIsWrittenDownAsUnsure(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faultproxy.New(t, s.Addr())
	lease := take(t, locker(t, s.Addr(), soon), "nightly")
	c := serves(t, proxy.Addr(), true, "")
	ask := in("/force", "nightly", "token", fmt.Sprint(lease.Token()))
	seal := sealIn(t, c.shows(http.StatusOK, ask))
	away := proxy.Add(faultproxy.Rule{Action: faultproxy.DropRequest(), Match: faultproxy.Any})
	if _, _, body := c.asks(http.MethodPost, ask, url.Values{"seal": {seal}}, header("Origin", c.url), header("Sec-Fetch-Site", "same-origin")); strings.Contains(body, "may have been done") {
		t.Errorf("it could only not look:\n%s", body)
	}
	away.Remove()
	proxy.Add(faultproxy.Rule{Action: faultproxy.SwallowReply(), Match: func(args []string) bool {
		return strings.EqualFold(args[0], "eval") && strings.HasPrefix(args[1], "-- force")
	}})
	c.does(http.StatusBadGateway, ask, seal, "It may have been done")
	<-lease.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.changes) != 1 || !c.changes[0].Unsure || c.changes[0].At.Location() != time.UTC || c.changes[0].Whose != fmt.Sprint(lease.Token()) {
		t.Errorf("the record: %+v", c.changes)
	}
}

func TestAForceThatASilentRedisHasYetToAnswerIsWrittenDownBeforeTheSiteEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faultproxy.New(t, s.Addr())
	lease := take(t, locker(t, s.Addr(), soon), "nightly")
	c := serves(t, proxy.Addr(), true, "")
	ask := in("/force", "nightly", "token", fmt.Sprint(lease.Token()))
	seal := sealIn(t, c.shows(http.StatusOK, ask))
	silent := proxy.Add(faultproxy.Rule{Action: faultproxy.SwallowReplySilently(), Match: func(args []string) bool {
		return strings.EqualFold(args[0], "eval") && strings.HasPrefix(args[1], "-- force")
	}})
	r, err := http.NewRequest(http.MethodPost, c.url+ask, strings.NewReader(url.Values{"seal": {seal}}.Encode()))
	must(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	over := make(chan struct{})
	go func() {
		defer close(over)
		if answer, err := c.http.Do(r); err == nil { // the site ends: it may not be answered
			_ = answer.Body.Close()
		}
	}()
	silent.WaitExecuted(t, 1, patienceOfTests)
	c.stop()
	c.mu.Lock()
	written := slices.Clone(c.changes)
	c.mu.Unlock()
	if len(written) != 1 || !written[0].Unsure || written[0].Whose != fmt.Sprint(lease.Token()) {
		t.Errorf("the record: %+v", written)
	}
	<-over
}

func TestAForceThatComesAfterTheSiteHasEndedIsNotDone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lease := take(t, locker(t, s.Addr()), "nightly")
	c := serves(t, s.Addr(), true, "")
	ask := in("/force", "nightly", "token", fmt.Sprint(lease.Token()))
	seal := sealIn(t, c.shows(http.StatusOK, ask))
	c.site.changing.Lock() // as the end of the site does
	defer c.site.changing.Unlock()
	c.does(http.StatusConflict, ask, seal, "This page has ended. Nothing was done.")
	must(t, lease.Err())
}

func TestEvictTakesOnlyTheWaiterThatWasShown(t *testing.T) {
	servers(t, func(t *testing.T, redisAt string) {
		l := locker(t, redisAt)
		take(t, l, "nightly")
		first := waits(t, l, "nightly", fairlock.Note("the first"))
		second := waits(t, l, "nightly", fairlock.WithOwner("the second"))
		state, err := l.Inspect(t.Context(), "nightly")
		must(t, err)
		c := serves(t, redisAt, true, "")
		c.shows(http.StatusOK, in("/lock", "nightly"), "Evict…")
		ask := in("/evict", "nightly", "id", state.Waiters[1].ID)
		seal := sealIn(t, c.shows(http.StatusOK, ask, "the second is taken out of the line", "2 of 2"))
		c.does(http.StatusForbidden, in("/evict", "nightly", "id", state.Waiters[0].ID), seal)
		c.does(http.StatusOK, ask, seal, "was taken out of the line")
		if err := <-second; !errors.Is(err, fairlock.ErrEvicted) {
			t.Error(err)
		}
		c.does(http.StatusConflict, ask, seal, "Nothing was done")
		select {
		case err := <-first:
			t.Errorf("the first: %v", err)
		default:
		}
	})
}

func TestAPageThatOnlyShowsChangesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lease := take(t, locker(t, s.Addr()), "x")
	may, c := serves(t, s.Addr(), true, ""), serves(t, s.Addr(), false, "")
	ask := in("/force", "x", "token", fmt.Sprint(lease.Token()))
	seal := sealIn(t, may.shows(http.StatusOK, ask))
	c.shows(http.StatusForbidden, ask, "--allow-changes")
	c.does(http.StatusForbidden, ask, seal)
	c.does(http.StatusForbidden, in("/evict", "x", "id", "y"), seal)
	must(t, lease.Err())
}

func TestAFormThatIsNotOursChangesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lease := take(t, locker(t, s.Addr()), "x")
	c, other := serves(t, s.Addr(), true, ""), serves(t, s.Addr(), true, "")
	ask := in("/force", "x", "token", fmt.Sprint(lease.Token()))
	for what, seal := range map[string]string{
		"none": "", "nonsense": strings.Repeat("0", 64), "huge": strings.Repeat("0", 1<<16),
		"of another process": sealIn(t, other.shows(http.StatusOK, ask)),
	} {
		if status, _, _ := c.asks(http.MethodPost, ask, url.Values{"seal": {seal}}); status != http.StatusForbidden {
			t.Errorf("%s: %d", what, status)
		}
	}
	// The seal counts in the form only: an address is written down in many places.
	seal := sealIn(t, c.shows(http.StatusOK, ask))
	if status, _, _ := c.asks(http.MethodPost, ask+"&seal="+seal, nil); status != http.StatusForbidden {
		t.Errorf("in the address: %d", status)
	}
	must(t, lease.Err())
}
