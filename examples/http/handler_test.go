package main

import (
	"io"
	"net/http"
	"testing"

	"github.com/fairlock/locks/fairlock/locktest"
)

// pays asks for one order to be paid, on a host that uses locks.
func pays(t *testing.T, locks *locktest.Locks) (status int, retryAfter, said string) {
	t.Helper()
	h := &host{name: "host", locker: locks.Locker, orders: &orders{busy: make(map[string]bool), token: make(map[string]int64)}}
	if err := h.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.close)
	ask, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/orders/42/pay?takes=1ms", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header.Get("Retry-After"), string(text)
}

func TestWhoeverFindsTheLineFullIsToldWhenToComeBack(t *testing.T) {
	locks := locktest.New(t)
	locks.HoldElsewhere("order:42")
	locks.QueueElsewhere("order:42", mostInLine)
	if status, after, said := pays(t, locks); status != http.StatusTooManyRequests || after != "2" {
		t.Errorf("%d, Retry-After: %q, %s", status, after, said)
	}
}

func TestWithoutARedisNothingIsPaid(t *testing.T) {
	locks := locktest.New(t)
	locks.Server.Stop()
	if status, _, said := pays(t, locks); status != http.StatusServiceUnavailable {
		t.Errorf("%d, %s", status, said)
	}
}
