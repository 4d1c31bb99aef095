package rules

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestACallGoesOnWhoseClientHadNoConnectionToSpare(t *testing.T) {
	for _, err := range []error{redis.ErrPoolTimeout, redis.ErrPoolExhausted} {
		if !Patient(false, err) {
			t.Errorf("a first request ends with %v", err)
		}
	}
}
