package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"
)

func TestAnErrorIsOneLineOfOurs(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"fairlock: why\n":                 errors.New("why"),
		"fairlock: lock \"x\": why\n":     errors.New(`fairlock: lock "x": why`),
		"fairlock: one; fairlock: two\n":  errors.Join(errors.New("one"), errors.New("fairlock: two")),
		"fairlock: wrapped: it is said\n": fmt.Errorf("wrapped: %w", fail(75, "it is said")),
	} {
		var out bytes.Buffer
		conclude(&out, err)
		if out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
	}
}

func TestAnExitDecidesTheCode(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	for _, test := range []struct {
		err  error
		code int
	}{{nil, 0}, {errors.New("x"), 1}, {fail(75, "x"), 75}, {&exit{code: 143}, 143}, {errors.Join(fail(69, "x"), errors.New("y")), 69}} {
		if got := conclude(&out, test.err); got != test.code {
			t.Errorf("%v: %d, want %d", test.err, got, test.code)
		}
	}
}

func TestANoticeIsShownOnceAndNotWhileTheCommandRuns(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	n := newNotices(&out)
	log := slog.New(n)
	log.Info("fairlock: fine")
	log.Warn("fairlock: odd", "lock", "x")
	log.Warn("fairlock: odd", "lock", "y")
	log.Error("fairlock: bad")
	n.hush()
	log.Error("fairlock: worse")
	if got := out.String(); got != "fairlock: odd lock=x\nfairlock: bad\n" {
		t.Errorf("%q", got)
	}
}
