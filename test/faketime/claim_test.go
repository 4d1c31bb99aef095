package faketime

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/world"
)

// The release may fall anywhere between two heartbeats of the next in line.
func TestAHeadThatDiesBeforeItsFirstRenewalCostsItsClaimAndNoMore(t *testing.T) {
	for _, lease := range []time.Duration{30 * time.Second, time.Second} {
		for after := time.Duration(0); after < 5*time.Second; after += 700 * time.Millisecond {
			t.Run(fmt.Sprint(lease, " ", after), func(t *testing.T) {
				inFakeTime(t, func(b *bubble) {
					holder, _ := b.client(fairlock.WithLease(lease))
					head, network := b.client(fairlock.WithLease(lease))
					next, _ := b.client(fairlock.WithLease(lease))
					lease1 := b.lock(holder)
					b.queue(head, 1)
					waits := b.queue(next, 2)
					b.queue(next, 3)
					time.Sleep(4*time.Second + after)
					network.stop()
					began := time.Now()
					b.unlock(lease1)
					had := <-waits
					if took := time.Since(began) - min(world.Claim, lease); took < 0 || took > 100*time.Millisecond {
						t.Errorf("it came %v after the claim", took)
					}
					b.unlock(had)
					synctest.Wait()
				})
			})
		}
	}
}

// Its callback keeps the call from returning while it has the lock, and loses it.
func TestACallThatLosesTheLockBeforeItReturnsJoinsAnewHoweverManyWaitAndHasWaitedSinceItBegan(t *testing.T) {
	inFakeTime(t, func(b *bubble) {
		holder, _ := b.client()
		call, network := b.client()
		others, _ := b.client()
		had := b.lock(holder)
		const wait = 2 * time.Minute
		ctx, cancel := context.WithTimeout(b.Context(), wait)
		defer cancel()
		goOn, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := call.Lock(ctx, "x", fairlock.MaxWaiters(1), fairlock.OnQueued(func(int) { <-goOn }))
			ended <- err
		}()
		synctest.Wait()
		second := b.queue(others, 2)
		third := b.queue(others, 3)
		b.unlock(had)
		time.Sleep(time.Second)
		network.stop()
		lease := <-second
		network.resume()
		close(goOn)
		var gaveUp *fairlock.WaitError
		if err := <-ended; !errors.As(err, &gaveUp) || gaveUp.Waited < wait || gaveUp.Position != 2 {
			t.Errorf("%v", err)
		}
		b.unlock(lease)
		b.unlock(<-third)
	})
}

// One ticket asks for all of them.
func TestManyWaitersOfAProcessAskAsOneWhenARecordMayHaveEnded(t *testing.T) {
	inFakeTime(t, func(b *bubble) {
		holder, _ := b.client(fairlock.WithLease(300 * time.Millisecond))
		crowd, network := b.client()
		lease := b.lock(holder)
		const n = 200
		for range n {
			go func() { _, _ = crowd.Lock(b.Context(), "x") }()
		}
		for len(line(b)) < n {
			time.Sleep(10 * time.Millisecond)
		}
		before := network.sent()
		time.Sleep(4 * time.Second) // in this time each of them has one heartbeat
		if bytes := network.sent() - before; bytes > 3*n*100 {
			t.Errorf("%d bytes were sent, of tickets that are less than 100 each", bytes)
		}
		if err := crowd.Close(); err != nil {
			t.Fatal(err)
		}
		b.unlock(lease)
	})
}

func line(b *bubble) []string {
	all, _ := b.mini.List("fairlock:queue:{x}")
	return all
}
