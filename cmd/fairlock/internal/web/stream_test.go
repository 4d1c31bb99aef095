package web

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// stream is a browser that is told of changes.
type stream struct {
	t     testing.TB
	lines *bufio.Scanner
	close func()
}

// told is one event.
type told struct{ Title, HTML string }

// listens opens a stream.
func (c *served) listens(path string) *stream {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patienceOfTests)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	must(c.t, err)
	answer, err := c.http.Do(r)
	must(c.t, err)
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		c.t.Fatalf("%s: %s", path, answer.Status)
	}
	s := &stream{t: c.t, lines: bufio.NewScanner(answer.Body), close: func() { cancel(); _ = answer.Body.Close() }}
	s.lines.Buffer(nil, 16<<20)
	c.t.Cleanup(s.close)
	return s
}

// drain reads the stream to its end.
func (s *stream) drain() {
	for s.lines.Scan() {
	}
}

// next returns the next event. Each line of the stream has to be a whole one.
func (s *stream) next() (event told) {
	s.t.Helper()
	for s.lines.Scan() {
		line := s.lines.Text()
		switch data, ok := strings.CutPrefix(line, "data: "); {
		case ok:
			must(s.t, json.Unmarshal([]byte(data), &event))
			return event
		case line != "" && line != "retry: 2000":
			s.t.Fatalf("a line that is not ours: %q", line)
		}
	}
	s.t.Fatalf("the stream has ended: %v", s.lines.Err())
	return event
}

// until waits for an event with this text.
func (s *stream) until(text string) string {
	s.t.Helper()
	for {
		if event := s.next(); strings.Contains(event.HTML, text) {
			return event.HTML
		}
	}
}

func TestAnOpenPageIsToldOfHandOversAsTheyHappen(t *testing.T) {
	servers(t, func(t *testing.T, redisAt string) {
		c := serves(t, redisAt, false, "")
		all, one := c.listens("/events"), c.listens(in("/events", "order:42"))
		one.until("Nobody has it.")
		all.until("No lock is held or waited for.")
		lease := take(t, locker(t, redisAt), "order:42", fairlock.Note("the first"))
		one.until("Held by <b>the first</b>")
		all.until("the first")
		waits(t, locker(t, redisAt), "order:42", fairlock.Note("the second")) // of another process: such a hand-over is a message
		one.until("In line <small>1</small>")
		must(t, lease.Unlock(t.Context()))
		one.until("handed to the second")
		one.until("Held by <b>the second</b>")
		all.until("</a> handed to the second")
	})
}

func TestNobodyIsToldOfMoreStreamsThanThereMayBe(t *testing.T) {
	t.Parallel()
	c := serves(t, redistest.Start(t).Addr(), false, "")
	var all []*stream
	for range mostStreams {
		all = append(all, c.listens("/events"))
	}
	status, header, _ := c.asks(http.MethodGet, "/events", nil)
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("%d", status)
	}
	all[0].close()
	eventually(t, "there is room", func() bool { return len(c.site.streams) < mostStreams })
	c.listens("/events").next()
}

func TestTheServerIsLeftAloneWhileNobodyLooksAndAskedOnceForAllWhoDo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	take(t, locker(t, s.Addr()), "x", fairlock.LeaseFor(time.Hour))
	scans := func() int { return redistest.Calls(t, rdb, "scan") }
	c := serves(t, s.Addr(), false, "")
	if n := scans(); n != 0 {
		t.Errorf("%d looks before anybody looked", n)
	}
	var all []*stream
	for range 20 {
		all = append(all, c.listens("/events"))
	}
	for _, one := range all {
		one.next()
		one.next()
		one.close()
	}
	looks := scans() / 2 // one for each kind of lock
	if looks > 2*20 {
		t.Errorf("%d looks for two events", looks)
	}
	// Nobody looks any more, once the views have lingered.
	w := c.site.watcher
	w.mu.Lock()
	for _, v := range w.views {
		v.asked = time.Now().Add(-2 * linger)
	}
	w.mu.Unlock()
	eventually(t, "nobody looks", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.views) == 0
	})
	eventually(t, "nobody listens", func() bool {
		subscribers, err := rdb.PubSubNumPat(t.Context()).Result()
		must(t, err)
		return subscribers == 0
	})
	if after := scans(); after < 2 {
		t.Error("the looks are not counted")
	}
}
