package exit

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAnErrorIsOneLineOfOurs(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"fairlock: why\n":                 errors.New("why"),
		"fairlock: lock \"x\": why\n":     errors.New(`fairlock: lock "x": why`),
		"fairlock: one; fairlock: two\n":  errors.Join(errors.New("one"), errors.New("fairlock: two")),
		"fairlock: wrapped: it is said\n": fmt.Errorf("wrapped: %w", Errorf(75, "it is said")),
	} {
		var out bytes.Buffer
		Report(&out, err)
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
	}{{nil, 0}, {errors.New("x"), 1}, {Errorf(75, "x"), 75}, {&Error{Code: 143}, 143}, {errors.Join(Errorf(69, "x"), errors.New("y")), 69}} {
		if got := Report(&out, test.err); got != test.code {
			t.Errorf("%v: %d, want %d", test.err, got, test.code)
		}
	}
}
