package torture

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// faint is for how long the server, or this process with all proxies, may stand still before that
// is a trouble for everybody. Processes have the same excuse.
const faint = leaseTime / 5

// machineStood is the kind of trouble that nobody made.
const machineStood = "stood still"

// stalls tells when the machine, which is busy, kept the server or this process from working.
type stalls struct {
	end     chan struct{}
	looking sync.WaitGroup
	seen    []*trouble // belongs to the goroutine that looks, until that has ended
}

func watchMachine(rdb *redis.Client) *stalls {
	s := &stalls{end: make(chan struct{})}
	s.looking.Go(func() { s.watches(rdb) })
	return s
}

func (s *stalls) watches(rdb *redis.Client) {
	for last := now(); ; last = now() {
		select {
		case <-s.end:
			return
		case <-time.After(looks):
		}
		ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
		_ = rdb.Ping(ctx).Err() // a server that is down is a trouble that somebody made
		cancel()
		if to := now(); to-last > int64(looks+faint) {
			s.seen = append(s.seen, &trouble{Kind: machineStood, Seat: everybody, From: last, To: to})
		}
	}
}

// ends ends the looking, and returns what was seen beside the troubles that somebody made.
func (s *stalls) ends(made []*trouble) []*trouble {
	close(s.end)
	s.looking.Wait()
	return slices.DeleteFunc(s.seen, func(t *trouble) bool {
		return slices.ContainsFunc(made, func(m *trouble) bool {
			return m.Seat == everybody && m.From < t.To && (m.To == 0 || m.To > t.From)
		})
	})
}
