package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/internal/ballot"
	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/lua"
)

// A message says when its node gave the vote, by the node's clock. How far that clock may have run
// apart from the client's grows from when they were last compared: every heartbeat does that.
func TestAVoteIsTrustedAsLongAfterHalfAMinuteInLineAsAtOnce(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		first, second := h.locker(), h.locker()
		after := func(wait time.Duration) (left time.Duration) {
			lease := h.has(first, "x")
			time.AfterFunc(wait, func() {
				h.ignore(renewScript.Command(nil)[1].(string)) // a renewal would make it longer
				if err := lease.Unlock(context.Background()); err != nil {
					h.Error(err)
				}
			})
			next := h.has(second, "x")
			left = time.Until(next.Deadline())
			h.ignore("")
			if err := next.Unlock(context.Background()); err != nil {
				h.Error(err)
			}
			return left
		}
		// Holds are renewed after 1, 11 and 21 s: not while they are given back.
		const short = 500 * time.Millisecond
		after(short) // it subscribes
		for _, wait := range []time.Duration{short, 26 * time.Second} {
			if left := after(wait); left < 2*time.Second {
				h.Errorf("after %v in line, the lock is trusted for %v", wait, left)
			}
		}
	})
}

// The watchdog of a process that stood still may be slower than an answer to what was sent before.
func TestAHoldWhoseTrustIsOverIsNotBroughtBackByALateAnswer(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		began := time.Now()
		at := func(after time.Duration) { time.Sleep(time.Until(began.Add(after))) }
		l := h.locker(WithEngine(engine.WithAlarm(func() {
			if time.Since(began) > 12*time.Second {
				at(35 * time.Second)
			}
		})))
		other := h.locker()
		lease := h.has(l, "x")
		at(5 * time.Second)
		for i := range 3 { // what is sent after 9 s is executed after 33, and the trust ends after 28
			h.on(l, i, renewScript, 0, 24*time.Second)
		}
		next := h.has(other, "x")
		at(32 * time.Second)
		if err := next.Unlock(context.Background()); err != nil {
			h.Error(err)
		}
		at(34 * time.Second)
		if err := lease.Err(); !errors.Is(err, ErrLost) {
			h.Errorf("it says %v, with a token of %d, after one of %d", err, lease.Token(), next.Token())
		}
	})
}

func TestAHoldIsLostAsSoonAsARenewalFindsThatNoMajorityIsItsOwn(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l, other := h.locker(), h.locker()
		h.hush(2)
		lease := h.has(l, "x")
		time.Sleep(8500 * time.Millisecond) // renewals go out after 1 and 9 s
		h.nodes[0].Del("quorum:lock:{x}")
		h.nodes[0].Del("quorum:queue:{x}")
		h.gives(0, other, "x") // with the third node, which may be there for others, it has a majority
		time.Sleep(2 * time.Second)
		if err := lease.Err(); !errors.Is(err, ErrLost) {
			h.Errorf("it says %v, and trusts one vote for %v", err, time.Until(lease.Deadline()))
		}
	})
}

// The renewal does not wait for that answer: all the others have come.
func TestAHoldIsLostAsSoonAsALateAnswerSaysThatNoMajorityIsItsOwn(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l, other := h.locker(), h.locker()
		h.gives(2, other, "x")
		h.nodes[2].SetTTL("quorum:lock:{x}", time.Minute)
		lease := h.has(l, "x")
		h.on(l, 0, renewScript, 0, 300*time.Millisecond)
		h.on(l, 2, renewScript, 0, 0)
		time.Sleep(8500 * time.Millisecond)
		h.nodes[0].Del("quorum:lock:{x}")
		h.nodes[0].Del("quorum:queue:{x}")
		h.gives(0, other, "x")
		time.Sleep(2 * time.Second)
		if err := lease.Err(); !errors.Is(err, ErrLost) {
			h.Errorf("it says %v, and trusts one vote for %v", err, time.Until(lease.Deadline()))
		}
	})
}

func TestAHoldIsTrustedUntilItsVotesEndThoughNoNodeAnswers(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		lease := h.has(h.locker(), "x")
		time.Sleep(5 * time.Second)
		h.hush(0, 1, 2)
		time.Sleep(22 * time.Second) // it was renewed after 1 s, for 27
		if err := lease.Err(); err != nil {
			h.Error(err)
		}
		time.Sleep(2 * time.Second)
		if err := lease.Err(); !errors.Is(err, ErrLost) {
			h.Errorf("it says %v", err)
		}
	})
}

func TestADecidedCallStandsFirstInTheLineOfANodeWhoseVoteItLacks(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l, other := h.locker(), h.locker()
		h.has(l, "y")
		h.gives(2, other, "x") // to an older call
		lease := h.has(l, "x")
		time.Sleep(2 * time.Second) // it is renewed
		line, err := h.nodes[2].ZMembers("quorum:queue:{x}")
		if err != nil || len(line) != 2 || !strings.HasPrefix(line[0], lease.Owner()+":") {
			h.Errorf("of %s the line is %v: %v", lease.Owner(), line, err)
		}
		if err := lease.Unlock(h.Context()); err != nil {
			h.Error(err)
		}
	})
}

// By the clock of the node that gave it, a token may be a claim ahead of what the others give.
func TestANodeThatForgotGrantsNothingForAClaimHoweverShortTheLeases(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.afresh(WithLongestLease(time.Second), WithLease(time.Second))
		lease := h.has(l, "x")
		if err := lease.Unlock(h.Context()); err != nil {
			h.Fatal(err)
		}
		for _, node := range h.nodes[:2] {
			node.FlushAll()
		}
		began := time.Now()
		lease = h.has(l, "x")
		if after := time.Since(began); after < lua.Claim {
			h.Errorf("it was granted after %v", after)
		}
		if err := lease.Unlock(h.Context()); err != nil {
			h.Error(err)
		}
	})
}

func TestInspectCountsAllWhoWaitAlsoThoseThatItDoesNotShow(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		lease := h.has(l, "x")
		const waiting = 700
		for _, node := range h.nodes {
			for i := range waiting {
				if _, err := node.ZAdd("quorum:queue:{x}", float64(time.Now().UnixMicro()+int64(i)), fmt.Sprintf("stranger:%d:10000::", i)); err != nil {
					h.Fatal(err)
				}
			}
		}
		state, err := l.Inspect(h.Context(), "x")
		if err != nil || state.Waiting != waiting || len(state.Waiters) >= waiting {
			h.Errorf("%d wait, %d are shown: %v", state.Waiting, len(state.Waiters), err)
		}
		if err := lease.Unlock(h.Context()); err != nil {
			h.Error(err)
		}
	})
}

func TestAFixedLeaseGetsTheVoteThatWasGivenBackBeforeAnybodyListened(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l, other := h.locker(), h.locker()
		h.has(other, "y")
		time.Sleep(100 * time.Millisecond) // it listens to all nodes by now
		h.ignore("subscribe")
		h.has(l, "y2")
		h.gives(2, other, "x")
		lease := h.has(l, "x", LeaseFor(30*time.Second))
		time.Sleep(100 * time.Millisecond) // so the vote of node 3 was given back
		if line, err := h.nodes[2].ZMembers("quorum:queue:{x}"); err != nil || len(line) != 1 || !strings.HasPrefix(line[0], lease.Owner()+":") {
			h.Fatalf("the line is %v: %v", line, err)
		}
		h.ignore("")
		h.answers()
		time.Sleep(5 * time.Second)
		if left := h.nodes[2].TTL("quorum:lock:{x}"); left < 20*time.Second {
			h.Errorf("node 3 has it for %v", left)
		}
		if err := lease.Unlock(h.Context()); err != nil {
			h.Error(err)
		}
	})
}

// backwards has all nodes keep the vote of a lock for a minute more, as a clock that is set back by
// that does.
func (h *hushed) backwards(name string) {
	for _, node := range h.nodes {
		record := "quorum:lock:{" + name + "}"
		node.SetTTL(record, node.TTL(record)+time.Minute)
	}
}

// What a node forgets has to be over when its quarantine is.
func TestNoVoteIsTrustedForLongerThanANodeThatForgotItGrantsNothing(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		const longest = 4 * time.Second
		l := h.afresh(WithLongestLease(longest), WithLease(longest))
		lease := h.has(l, "x")
		h.backwards("x")
		time.Sleep(1500 * time.Millisecond) // it is renewed after 1 s
		if left := time.Until(lease.Deadline()); left > longest {
			h.Errorf("it is trusted for %v more", left)
		}
		if err := lease.Unlock(h.Context()); err != nil {
			h.Error(err)
		}

		h.gives(0, l, "y")
		h.backwards("y")
		keys, err := lua.NewKeys(l.prefix, "y")
		if err != nil {
			h.Fatal(err)
		}
		ticket := h.nodes[0].HGet(keys.Record(), "ticket")
		line := []string{keys.Record(), keys.Queue(), keys.Waiters(), keys.Token(), l.nodeKey}
		reply, err := l.nodes[0].run(h.Context(), beatScript, line, l.args.id, l.nodes[0].arg, l.args.most, ticket)
		if err != nil {
			h.Fatal(err)
		}
		if s, err := decodeSeen(reply); err != nil || s.holder != ticket || s.left > longest {
			h.Errorf("a heartbeat says that %q has the vote for %v: %v", s.holder, s.left, err)
		}
		reply, err = l.nodes[0].run(h.Context(), enterScript, append(line, "quorum:gone:{y}:z"), ticket, l.nodes[0].arg, l.args.most)
		if err != nil {
			h.Fatal(err)
		}
		if a, err := decodeAnswer(reply, lua.Claim); err != nil || a.Status != ballot.Granted || a.Left > longest {
			h.Errorf("the node says %q, for %v: %v", a.Status, a.Left, err)
		}
	})
}

func TestANodeWhoseClockWasAheadAndIsSetRightIsOutNoLongerThanOneThatForgot(t *testing.T) {
	const rest = lua.Claim + time.Second // with leases of a second
	for _, first := range []string{"a process of before", "a new process"} {
		t.Run(first, func(t *testing.T) {
			inFakeTime(t, 3, func(h *hushed) {
				l := h.afresh(WithLongestLease(time.Second), WithLease(time.Second))
				if err := h.has(l, "x").Unlock(h.Context()); err != nil {
					h.Fatal(err)
				}
				for _, node := range h.nodes {
					node.HSet("quorum:node", "from", decimal(time.Now().Add(24*time.Hour).UnixMilli()))
				}
				if first == "a new process" {
					l = h.locker(WithLongestLease(time.Second), WithLease(time.Second))
				}
				status, err := l.Nodes(h.Context())
				if err != nil {
					h.Fatal(err)
				}
				for _, s := range status {
					if s.Quarantine != rest {
						h.Errorf("%s shows a quarantine of %v", s.Node, s.Quarantine)
					}
				}
				began := time.Now()
				ctx, cancel := context.WithTimeout(h.Context(), time.Minute)
				defer cancel()
				lease, err := l.Lock(ctx, "x")
				if took := time.Since(began); err != nil || took < rest || took > rest+time.Second {
					h.Fatalf("after %v: %v", took, err)
				}
				if err := lease.Unlock(h.Context()); err != nil {
					h.Error(err)
				}
			})
		})
	}
}

// ahead has a node's clock be ahead of the others', until the test ends.
func (h *hushed) ahead(i int, by time.Duration) {
	over, done := make(chan struct{}), make(chan struct{})
	h.Cleanup(func() { close(over); <-done })
	h.nodes[i].SetTime(time.Now().Add(by))
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			case now := <-time.After(time.Millisecond):
				h.nodes[i].SetTime(now.Add(by))
			}
		}
	}()
}

func TestNoTokenFallsWhenNodesForgetWhatANodeWhoseClockIsAheadGaveAfterAForce(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		for _, node := range h.nodes {
			node.FlushAll()
		}
		h.ahead(0, lua.Claim-100*time.Millisecond)
		const lease = 2 * time.Second // a force raises the token by as much
		l := h.locker(WithLongestLease(lease), WithLease(lease))
		if err := l.Init(h.Context()); err != nil {
			h.Fatal(err)
		}
		h.has(l, "x")
		if err := l.ForceUnlock(h.Context(), "x"); err != nil {
			h.Fatal(err)
		}
		h.hush(2) // so the first node has a say
		second := h.has(l, "x")
		_ = second.Unlock(h.Context()) // one node has not heard it
		h.answers()
		time.Sleep(200 * time.Millisecond) // now it has
		for _, node := range h.nodes[1:] {
			node.FlushAll()
		}
		h.hush(0)
		third := h.has(l, "x")
		if third.Token() <= second.Token() {
			h.Errorf("token %d after %d", third.Token(), second.Token())
		}
		if err := third.Unlock(h.Context()); err != nil {
			h.Error(err)
		}
	})
}
