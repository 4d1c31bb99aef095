package redistest

import (
	"context"
	"strings"
	"testing"
)

const (
	touchesWhatItDeclares = `redis.call("SET", KEYS[1], "1") return redis.call("SET", KEYS[2], "1")`
	touchesAnother        = `redis.call("SET", KEYS[1], "1") return redis.call("SET", KEYS[1] .. ":x", "1")`
)

func TestAClusterOfOneIsStrictAboutDeclaredKeysOnly(t *testing.T) {
	c := StartCluster(t).Client(t)
	ctx := context.Background()
	t.Run("keys of one slot are fine", func(t *testing.T) {
		must(t, c.Eval(ctx, touchesWhatItDeclares, []string{"{same}a", "{same}b"}).Err())
	})
	t.Run("keys of several slots are refused", func(t *testing.T) {
		err := c.Eval(ctx, touchesWhatItDeclares, []string{"a", "b"}).Err()
		if err == nil || !strings.Contains(err.Error(), "CROSSSLOT") {
			t.Fatalf("two slots: %v", err)
		}
	})
	// This pins what StartCluster's comment warns of. If it ever fails, the
	// server has become stricter and the warning can go.
	t.Run("an undeclared key goes unnoticed", func(t *testing.T) {
		must(t, c.Eval(ctx, touchesAnother, []string{"a"}).Err())
	})
}
