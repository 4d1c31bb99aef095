package engine

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestATimeoutForReplicasThatHasNoEndIsInvalid(t *testing.T) {
	for _, within := range []time.Duration{0, MaxLease + 1, math.MaxInt64} {
		for _, option := range []LockOption{WithReplicas(1, within), WithFsync(0, within)} {
			r := option.apply(Request{})
			if !errors.Is(r.Err, ErrInvalid) {
				t.Errorf("%v: %v", within, r.Err)
			}
		}
	}
}
