package torture

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
)

// longest is how long each kind of key may live after the last process has gone. Tokens outlive
// their users on purpose. A lock that a killed process held for minutes stays held for minutes.
var longest = map[string]time.Duration{
	"lock":    0, // the lock's own longest lease
	"queue":   30 * time.Second,
	"waiters": time.Minute,
	"token":   lua.TokenTTL, // and two such leases
}

// leaked lists the keys that live longer than their kind may. The others need the returned time to
// vanish by themselves; tokens are not waited for.
func leaked(ttl map[string]time.Duration) (wrong []string, wait time.Duration) {
	for key, left := range ttl {
		if key == lua.ProtocolKey("fairlock") && left > 0 && left <= lua.ProtocolTTL {
			continue // it outlives its users on purpose
		}
		part := strings.SplitN(strings.Replace(key, "fairlock:plain:", "fairlock:", 1), ":", 3)
		most, known := time.Duration(0), false
		if len(part) == 3 && part[0] == "fairlock" {
			most, known = longest[part[1]]
		}
		lock := lockOf(key)
		switch {
		case known && part[1] == "lock":
			most = leaseOf(lock)
		case known && part[1] == "token":
			most += 2 * leaseOf(lock)
		}
		switch {
		case !known:
			wrong = append(wrong, fmt.Sprintf("%s is no key of a lock", key))
		case left < 0:
			wrong = append(wrong, fmt.Sprintf("%s lives forever", key))
		case left > most:
			wrong = append(wrong, fmt.Sprintf("%s lives for another %v, longer than %v", key, left, most))
		case part[1] != "token" && !strings.HasPrefix(lock, long):
			wait = max(wait, left)
		}
	}
	return wrong, wait
}

// lockOf returns the lock that a key belongs to.
func lockOf(key string) string {
	_, name, _ := strings.Cut(key, "{")
	return strings.TrimSuffix(name, "}")
}

// remaining returns the keys in the server, and how long each of them has to live.
func remaining(ctx context.Context, rdb *redis.Client) (map[string]time.Duration, error) {
	keys, err := rdb.Keys(ctx, "*").Result()
	if err != nil {
		return nil, err
	}
	all := make(map[string]time.Duration)
	for _, key := range keys {
		left, err := rdb.PTTL(ctx, key).Result()
		if err != nil {
			return nil, err
		}
		if left != -2 { // -2: the key has vanished meanwhile
			all[key] = left
		}
	}
	return all, nil
}
