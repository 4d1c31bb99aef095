package redisson

import (
	"strings"
	"testing"
	"time"
)

func TestARefusalNamesTheHolderAlsoAfterAWait(t *testing.T) {
	onBoth(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			lease := w.has(locker(), "x")
			_, err := locker().Lock(w.Context(), "x", WaitAtMost(20*time.Millisecond))
			w.is(err, ErrHeld)
			if !strings.Contains(err.Error(), lease.Owner()) {
				w.Errorf("%v, and %s has it", err, lease.Owner())
			}
			w.unlock(lease)
			w.nothing()
		})
	})
}

func TestRepliesThatMakeNoSenseAreErrors(t *testing.T) {
	for _, reply := range [][]any{
		nil,
		{},
		{int64(1)},
		{"granted"},
		{"granted", "x"},
		{"waits", int64(1), int64(1)},
		{"held", int64(1), "x", "y"},
		{"gone", int64(1)},
		{"other", int64(1), int64(1), ""},
	} {
		if a, err := decodeAnswer(reply); err == nil {
			t.Errorf("%v is %+v", reply, a)
		}
	}
	for _, reply := range [][]any{nil, {int64(-2), "x", "", []any{}}, {int64(1), int64(1), "", "x"}, {int64(-2), int64(-1), "", []any{}}} {
		if v, err := decodeView(reply); err == nil {
			t.Errorf("%v is %+v", reply, v)
		}
	}
	for _, reply := range [][]any{nil, {int64(1), "", "0", int64(0), int64(1), []any{"odd"}}, {"1", "", "0", int64(0), int64(1), []any{}}} {
		if _, err := show(new(State), reply); err == nil {
			t.Errorf("%v is shown", reply)
		}
	}
}
