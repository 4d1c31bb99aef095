package processes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/workers"
	"github.com/fairlock/locks/test/world"
)

// gatherers is the variable that makes a process one that wants several locks again and again.
const gatherers = "FAIRLOCK_GATHERER"

// gathered are the locks that each of them wants.
var gathered = strings.Split("abcdefghij", "")

// Two processes want the same ten locks, each time in another order, and one of them is killed
// again and again, at any moment. If they ever waited for each other, they would do so for ever.
func TestTwoProcessesThatWantTheSameTenLocksInRandomOrdersNeverWaitForEachOther(t *testing.T) {
	for kind, goal := range map[string]int64{"fair": 3_000, "plain": 1_000} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			machine.Lock()
			defer machine.Unlock()
			s := newStage(t)
			var rounds atomic.Int64
			wrong := make(chan string, 1)
			start := func() *workers.Process {
				return workers.Launch(t, kind+" gatherer", gatherers+"="+kind+" "+s.server.Addr(), func(out io.Reader) {
					for lines := bufio.NewScanner(out); lines.Scan(); {
						if lines.Text() == "." {
							rounds.Add(1)
							continue
						}
						select {
						case wrong <- lines.Text():
						default:
						}
					}
				})
			}
			all := []*workers.Process{start(), start()}
			began, killed := time.Now(), 0
			for next := int64(0); next < goal; next = rounds.Load() + 1 + rand.Int64N(goal/10) {
				s.until(fmt.Sprint("there were ", next, " rounds"), func() bool { return rounds.Load() >= next || len(wrong) > 0 })
				i := killed % 2
				all[i].Kill()
				all[i] = start()
				killed++
			}
			t.Logf("%d rounds of %d locks in %v, %d killed", rounds.Load(), len(gathered), time.Since(began), killed)
			for _, p := range all {
				p.Quit()
			}
			if len(wrong) > 0 {
				t.Fatal(<-wrong)
			}
			s.until("no lock is held or waited for", func() bool {
				for _, key := range s.leftovers() {
					if s.rdb.Type(t.Context(), key).Val() != "zset" || s.rdb.ZCount(t.Context(), key, "0", "+inf").Val() > 0 {
						return false
					}
				}
				return true
			})
			s.cleared()
		})
	}
}

// fences come in with the tokens of all locks, each of which must be larger than any before, or as
// large as when the holder came in.
//
//	KEYS  the fence of each lock
//	ARGV  'in' or 'out', the token of each lock
//	Reply the first lock whose token is wrong, or 0
var fences = redis.NewScript(`
	for i, key in ipairs(KEYS) do
		local last, token = tonumber(redis.call('GET', key) or 0), tonumber(ARGV[i + 1])
		if ARGV[1] == 'in' and token <= last or ARGV[1] == 'out' and token ~= last then return i end
	end
	for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[i + 1]) end
	return 0`)

// gather wants all locks until its standard input ends, and prints a line for each time that it had
// them.
func gather(told string) error {
	kind, addr, _ := strings.Cut(told, " ")
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	of := world.Fair
	if kind == "plain" {
		of = world.Plain
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin) // until it ends
	}()
	locker := of(rdb, fairlock.WithLease(time.Second), fairlock.WithLogger(slog.New(slog.DiscardHandler)))
	for ctx.Err() == nil {
		names := append([]string(nil), gathered...)
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		err := locker.DoAll(ctx, names, func(_ context.Context, leases *fairlock.Leases) error {
			if err := pass(rdb, "in", names, leases); err != nil {
				return err
			}
			return pass(rdb, "out", names, leases)
		})
		switch {
		case err == nil:
			fmt.Println(".")
		case !errors.Is(err, context.Canceled) && !errors.Is(err, fairlock.ErrLost): // this process may have been stopped for long
			fmt.Println(err)
		}
	}
	err := errors.Join(locker.Close(), rdb.Close())
	return errors.Join(err, goleak.Find())
}

// pass has the fences look at the tokens.
func pass(rdb *redis.Client, way string, names []string, leases *fairlock.Leases) error {
	keys, tokens := make([]string, len(names)), []any{way}
	for i, name := range names {
		keys[i] = "fence:" + name
		tokens = append(tokens, leases.Token(name))
	}
	wrong, err := fences.Run(context.Background(), rdb, keys, tokens...).Int()
	switch {
	case leases.Err() != nil: // the answer came too late to mean anything
		return leases.Err()
	case err != nil:
		return err
	case wrong != 0:
		return fmt.Errorf("%s: the token of %s, %d, is not the one that it should be", way, names[wrong-1], leases.Token(names[wrong-1]))
	}
	return nil
}
