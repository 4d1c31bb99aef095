package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fairlock/locks/examples/internal/stagetest"
	"github.com/fairlock/locks/test/redistest"
)

func TestMain(m *testing.M) { stagetest.Main(m, main) }

func TestRequestsForOneKeyAreServedInTurnAndWhoFindsTheLineFullIsToldWhenToRetry(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		checkHTTP(t, stagetest.Run(t))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		checkHTTP(t, stagetest.Run(t, "-redis", "redis://"+redistest.Start(t).Addr()))
	})
}

var (
	token = regexp.MustCompile(`with token (\d+)`)
	wants = []string{
		"requests 1 to 6 for order 42 wait in line, on both hosts",
		"request 7 for order 42: 429, Retry-After: 2",
		"request 8 for order 43: 200 paid, with token #",
		"request 3 hangs up: 5 are in line",
		"request 9 for order 42 waits: there is room again",
		"",
		"request 1 for order 42: 200 paid, with token #",
		"request 2 for order 42: 200 paid, with token #",
		"request 4 for order 42: 200 paid, with token #",
		"request 5 for order 42: 200 paid, with token #",
		"request 6 for order 42: 200 paid, with token #",
		"request 9 for order 42: 200 paid, with token #",
		"",
		"request 10 for order 42 is at work for an hour, with token #: somebody forces the lock",
		"request 10: 503 not paid: the lock is lost",
		"request 11 for order 42: 200 paid, with token #",
		"",
		"audit: 11 requests to 2 servers: one at a time for each order and first come, first served; 1 was told to retry, 1 hung up, 1 lost its lock",
		"every promise was kept",
		"",
	}
)

func checkHTTP(t *testing.T, shown string) {
	t.Helper()
	if got := strings.Split(token.ReplaceAllString(shown, "with token #"), "\n"); !slices.Equal(got, wants) {
		t.Errorf("it shows\n%s\nwant\n%s", shown, strings.Join(wants, "\n"))
	}
	var tokens []string
	for _, one := range token.FindAllStringSubmatch(shown, -1) {
		tokens = append(tokens, one[1])
	}
	tokens = tokens[1:] // the first token is of another order
	if !slices.IsSorted(tokens) {
		t.Errorf("tokens of order 42 that do not grow: %q", tokens)
	}
}
