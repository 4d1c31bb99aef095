package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/fairlock/locks/examples/internal/stage"
	"github.com/fairlock/locks/fairlock"
)

const mostInLine = 6

// story plays the clients and watches the orders.
type story struct {
	*stage.Stage
	hosts  []*host
	orders *orders
	locker *fairlock.Locker // of an administrator, who can inspect an order and hold it back
	client *http.Client
	sent   int
}

// request is a request that a client has sent.
type request struct {
	number int
	hangUp context.CancelFunc
	answer chan answer
}

type answer struct {
	status     int
	retryAfter string
	text       string
	err        error
}

func play(ctx context.Context, s *stage.Stage) error {
	orders := &orders{busy: make(map[string]bool), token: make(map[string]int64)}
	p := &story{
		Stage: s, orders: orders,
		locker: fairlock.New(s.Redis, fairlock.WithPrefix(s.Prefix)), client: &http.Client{Timeout: time.Minute},
	}
	defer p.close()
	for _, name := range []string{"A", "B"} {
		h := &host{name: name, locker: fairlock.New(s.Redis, fairlock.WithPrefix(s.Prefix)), orders: orders}
		if err := h.open(ctx); err != nil {
			return err
		}
		p.hosts = append(p.hosts, h)
	}
	for _, scene := range []func(context.Context) error{p.line, p.loss} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	_, stale := orders.seen()
	s.Check(stale == 0, "%d tokens were not larger than the one before", stale)
	return s.Audit("%d requests to 2 servers: one at a time for each order and first come, first served; 1 was told to retry, 1 hung up, 1 lost its lock", p.sent)
}

func (p *story) close() {
	for _, h := range p.hosts {
		h.close()
	}
	p.client.CloseIdleConnections()
	_ = p.locker.Close()
}

// line shows how requests wait.
func (p *story) line(ctx context.Context) error {
	gate, err := p.locker.Lock(ctx, "order:42")
	if err != nil {
		return err
	}
	defer gate.Unlock(ctx)
	var waiting []*request
	for n := range mostInLine {
		r := p.send(ctx, "42", time.Millisecond)
		waiting = append(waiting, r)
		if err := p.untilWaiting(ctx, n+1); err != nil {
			return err
		}
	}
	p.Say("requests 1 to %d for order 42 wait in line, on both hosts", mostInLine)

	full := p.send(ctx, "42", time.Millisecond)
	a := <-full.answer
	p.Say("request %d for order 42: %d, Retry-After: %s", full.number, a.status, a.retryAfter)
	p.Check(a.status == http.StatusTooManyRequests && a.retryAfter == "2", "who found the line full was told %+v", a)

	other := p.send(ctx, "43", time.Millisecond)
	a = <-other.answer
	p.Say("request %d for order 43: %d %s", other.number, a.status, a.text)
	p.Check(a.status == http.StatusOK, "a request for another order was told %+v", a)

	waiting[2].hangUp()
	<-waiting[2].answer
	if err := p.untilWaiting(ctx, mostInLine-1); err != nil {
		return fmt.Errorf("after a client has hung up: %w", err)
	}
	p.Say("request %d hangs up: %d are in line", waiting[2].number, mostInLine-1)
	waiting = append(waiting[:2], waiting[3:]...)
	waiting = append(waiting, p.send(ctx, "42", time.Millisecond))
	if err := p.untilWaiting(ctx, mostInLine); err != nil {
		return err
	}
	p.Say("request %d for order 42 waits: there is room again\n", p.sent)
	if err := gate.Unlock(ctx); err != nil {
		return err
	}
	err = p.served(waiting)
	overlaps, _ := p.orders.seen()
	p.Check(overlaps == 0, "%d requests were served while another one for the same order was", overlaps)
	return err
}

// served checks that all were served, in this order, each with a larger token than the one before.
func (p *story) served(waiting []*request) error {
	last := ""
	for _, r := range waiting {
		a := <-r.answer
		if a.err != nil {
			return a.err
		}
		p.Say("request %d for order 42: %d %s", r.number, a.status, a.text)
		p.Check(a.status == http.StatusOK && a.text > last, "request %d was told %+v after %q", r.number, a, last)
		last = a.text
	}
	return nil
}

// loss shows a handler whose lock is taken away while it works. The next request gets the lock at
// once. Until the first handler hears of its loss, two handlers work; their tokens tell them apart.
func (p *story) loss(ctx context.Context) error {
	working := p.send(ctx, "42", time.Hour)
	state, err := p.until(ctx, func(s *fairlock.State) bool { return s.Holder != nil })
	if err != nil {
		return err
	}
	next := p.send(ctx, "42", time.Millisecond)
	if err := p.untilWaiting(ctx, 1); err != nil {
		return err
	}
	p.Say("\nrequest %d for order 42 is at work for an hour, with token %d: somebody forces the lock", working.number, state.Token)
	if err := p.locker.ForceUnlock(ctx, "order:42"); err != nil {
		return err
	}
	a := <-working.answer
	p.Say("request %d: %d %s", working.number, a.status, a.text)
	p.Check(a.status == http.StatusServiceUnavailable && strings.Contains(a.text, "lost"), "the handler that lost its lock said %+v", a)
	return p.served([]*request{next})
}

// send sends a request to the hosts in turn.
func (p *story) send(ctx context.Context, order string, takes time.Duration) *request {
	h := p.hosts[p.sent%len(p.hosts)]
	p.sent++
	ctx, cancel := context.WithCancel(ctx)
	r := &request{p.sent, cancel, make(chan answer, 1)}
	go func() {
		defer cancel()
		r.answer <- p.ask(ctx, fmt.Sprintf("%s/orders/%s/pay", h.url, order), "takes="+takes.String())
	}()
	return r
}

func (p *story) ask(ctx context.Context, url, form string) answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(form))
	if err != nil {
		return answer{err: err}
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := p.client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header.Get("Retry-After"), strings.TrimSpace(string(text)), err}
}

func (p *story) untilWaiting(ctx context.Context, n int) error {
	_, err := p.until(ctx, func(s *fairlock.State) bool { return len(s.Waiters) == n })
	return err
}

// until inspects order 42 until its state is as wanted.
func (p *story) until(ctx context.Context, so func(*fairlock.State) bool) (*fairlock.State, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		state, err := p.locker.Inspect(ctx, "order:42")
		if err != nil || so(state) {
			return state, err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("order 42 is not as it should be: held %t, %d wait", state.Holder != nil, len(state.Waiters))
		}
	}
}
