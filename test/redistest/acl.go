package redistest

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

const keysUser = "only-these-keys"

// ClientForKeys returns a client that may run every command and use every
// channel, but may touch no key except these. The server enforces that inside
// scripts too: a script that builds a key's name itself fails with an error
// for which [Undeclared] is true. Use it to prove that a script's declared keys
// are all the keys it uses.
//
// A second call changes what the clients of the first may touch.
func (s *Server) ClientForKeys(tb testing.TB, keys ...string) *redis.Client {
	tb.Helper()
	rules := []any{"ACL", "SETUSER", keysUser, "reset", "on", "nopass", "+@all", "allchannels"}
	for _, key := range keys {
		rules = append(rules, "~"+literal.Replace(key))
	}
	if err := s.Client(tb).Do(context.Background(), rules...).Err(); err != nil {
		tb.Fatalf("create a user for the keys %q: %v", keys, err)
	}
	return s.Client(tb, func(o *redis.Options) { o.Username, o.Password = keysUser, "any" })
}

// Undeclared reports whether err is the server's error for a script that touches a forbidden key.
// Redis 7.0 words that error in one way, later versions in another.
func Undeclared(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "can't access at least one of the keys") ||
		strings.Contains(err.Error(), "No permissions to access a key"))
}

// literal turns a key into the glob pattern that matches only this key.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
