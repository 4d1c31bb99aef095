package workers

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// The witness stands beside the lock and knows nothing of it. It knows how many holders are inside,
// and the token of the last that came in. Each of its two calls is one script, so all that a reply
// says was true at one instant.
//
//	KEYS  1 how many are inside  2 the last token  3 how many were witnessed
//	ARGV  1 the token of the holder that comes in
//	Reply {how many are inside now, the token before}
var comesIn = redis.NewScript(`
	local before = redis.call('GETSET', KEYS[2], ARGV[1])
	redis.call('INCR', KEYS[3])
	return {redis.call('INCR', KEYS[1]), tonumber(before or 0)}`)

// WitnessKeys returns where the witness of a lock keeps what it saw: how many are inside, the last
// token, how many came.
func WitnessKeys(name string) []string {
	return []string{"witness:inside:" + name, "witness:last:" + name, "witness:count:" + name}
}

// witness runs a critical section that must be alone, and later than any before it.
func (w *worker) witness(ctx context.Context, name string, token int64) error {
	keys := WitnessKeys(name)
	seen, err := comesIn.Run(ctx, w.rdb, keys, token).Int64Slice()
	if err != nil {
		return err
	}
	after, err := w.rdb.Decr(ctx, keys[0]).Result()
	if err != nil {
		return err
	}
	switch {
	case seen[0] != 1 || after != 0:
		return fmt.Errorf("overlap: with token %d there were %d inside, and %d left behind", token, seen[0], after)
	case seen[1] >= token:
		return fmt.Errorf("token %d came in after token %d", token, seen[1])
	}
	return nil
}
