package quorum

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/ballot"
	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
)

// enters asks one node for a lock, as the client of that Locker would, by a client of its own.
func (w *world) enters(rdb *redis.Client, l *Locker, i int, keys lua.Keys, t lua.Ticket, place ...any) []any {
	w.Helper()
	reply, err := lua.NewServer(rdb, l.channels, l.core.ID).Run(w.Context(), enterScript,
		[]string{keys.Record(), keys.Queue(), keys.Waiters(), keys.Token(), l.nodeKey, l.mark(keys, t)},
		append([]any{t.String(), l.nodes[i].arg, l.most.Milliseconds()}, place...)...)
	if err != nil {
		w.Fatalf("node %d: %v", i+1, err)
	}
	return reply
}

func (w *world) keys(l *Locker, name string) lua.Keys {
	w.Helper()
	keys, err := lua.NewKeys(l.prefix, name)
	w.must(err)
	return keys
}

func TestAVoteThatAHolderGetsLateIsMoreThanAClaim(t *testing.T) {
	w := realNodes(t, 3)
	other, holder := w.locker(), w.locker()
	has := w.has(other, "y")
	waits := w.queues(holder, "y") // so the holder's process listens
	keys := w.keys(holder, "x")
	stranger := other.core.Ticket(&engine.Request{Lease: time.Minute})
	w.enters(w.direct[2], other, 2, keys, stranger) // somebody has the third vote, for a claim

	lease := w.has(holder, "x")
	record := func(field string) string {
		return w.direct[2].HGet(context.Background(), keys.Record(), field).Val()
	}
	w.until("the holder has renewed its votes", func() bool {
		return w.direct[0].HExists(context.Background(), keys.Record(), "decided").Val()
	})
	_, err := other.leaveFor(w.Context(), 2, keys, stranger, 0, itself)
	w.must(err)
	var since string
	w.until("the third node's vote comes to the holder", func() bool {
		since = record("since")
		return record("ticket") != "" && record("ticket") != stranger.String()
	})
	w.until("it is a lease", func() bool {
		return w.direct[2].PTTL(context.Background(), keys.Record()).Val() > lua.Claim || record("since") != since
	})
	if record("since") != since {
		t.Error("the vote ran out before it was renewed")
	}
	w.unlock(lease)
	w.unlock(has)
	w.unlock(w.gets(waits))
}

// The request of a call that has ended is executed late, when the node no longer knows that the
// call has left.
func TestAVoteOfACallThatHasEndedIsGivenBackWhenSomebodyOlderAsksForIt(t *testing.T) {
	w := realNodes(t, 3)
	l, other := w.locker(), w.locker()
	has := w.has(other, "y")
	waits := w.queues(l, "y") // so its process listens, soon
	keys, node := w.keys(l, "x"), w.direct[2]
	w.until("its process listens at the third node", func() bool {
		channel := l.nodes[2].channel
		return node.PubSubNumSub(w.Context(), channel).Val()[channel] > 0
	})
	ghost := l.core.Ticket(&engine.Request{Lease: time.Minute})
	w.enters(node, l, 2, keys, ghost)
	w.must(node.Persist(w.Context(), keys.Record()).Err()) // its claim does not end

	older := other.core.Ticket(&engine.Request{Lease: time.Minute})
	if reply := w.enters(node, other, 2, keys, older, 1); reply[0] != "waits" {
		t.Fatalf("the call that has ended has no vote: %v", reply)
	}
	w.until("the vote is given back", func() bool {
		return node.HGet(context.Background(), keys.Record(), "ticket").Val() != ghost.String()
	})
	w.unlock(has)
	w.unlock(w.gets(waits))
}

func TestAClientThatMayNotAskForTheRunIDTakesNobodysVote(t *testing.T) {
	w := realNodes(t, 3)
	l := w.locker()
	w.unlock(w.has(l, "x"))
	ctx := w.Context()
	for i, s := range w.servers {
		w.must(w.direct[i].Do(ctx, "ACL", "SETUSER", "blind", "on", "nopass", "+@all", "-info", "~*", "&*").Err())
		rdb := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "blind", "any" })
		reply := w.enters(rdb, l, i, w.keys(l, "x"), l.core.Ticket(&engine.Request{Lease: time.Minute}))
		if reply[0] != "waits" {
			t.Errorf("node %d: %v", i+1, reply)
		}
	}
	w.unlock(w.has(l, "y")) // nobody is kept from anything
}

// The message that gives a holder the vote of its last node comes over a subscription that is
// younger than all that the holder knows of that node's clock. It may come before the answer to the
// renewal that asked for the vote, or after it.
func TestAHolderMakesUseOfAVoteOfWhichItHearsOverANewSubscription(t *testing.T) {
	for what, early := range map[string]bool{"before the answer": true, "after the answer": false} {
		t.Run(what, func(t *testing.T) {
			w := realNodes(t, 3)
			l, proxies := w.through()
			b := w.locker()
			third := func(field string) string {
				return w.direct[2].HGet(context.Background(), "quorum:lock:{x}", field).Val()
			}
			y := w.has(b, "y")
			late := proxies[2].Add(faultproxy.Rule{Match: executes(enterScript), Times: 1, Action: faultproxy.HoldRequest()})
			lease := w.has(l, "x")
			late.WaitHit(t, 1, patience)
			next := w.queues(b, "x") // it gets the vote of the third node
			w.until("that call has it", func() bool { return third("ticket") != "" })
			its := third("ticket")
			since := make(chan string, 1)
			proxies[2].Add(faultproxy.Rule{Match: executes(renewScript), Times: 1, Action: faultproxy.RewriteReply(func(reply []byte) []byte {
				for limit := time.Now().Add(patience); third("ticket") == its && time.Now().Before(limit); {
					time.Sleep(time.Millisecond)
				}
				since <- third("since")
				if early {
					time.Sleep(100 * time.Millisecond) // so the message is heard
				}
				return reply
			})})
			other := w.queues(l, "y")
			w.until("the holder's process listens", func() bool {
				channel := l.nodes[2].channel
				return w.direct[2].PubSubNumSub(w.Context(), channel).Val()[channel] > 0
			})
			late.Release()
			w.until("all nodes know that the holder is decided", func() bool { return third("decided") == "1" })
			if got, want := third("since"), <-since; got != want {
				t.Errorf("the vote of %s was let go, and that of %s is used", want, got)
			}
			w.unlock(lease)
			w.unlock(w.gets(next))
			w.unlock(y)
			w.unlock(w.gets(other))
		})
	}
}

func TestAHolderDoesNotTakeBackAVoteThatWasForcedFromIt(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l, admin := h.locker(), h.locker()
		h.has(admin, "y")
		lease := h.has(l, "x")
		time.Sleep(2 * time.Second) // it is decided everywhere
		l.mu.Lock()
		var forced *call
		for _, c := range l.calls {
			forced = c
		}
		l.mu.Unlock()
		if _, err := admin.leaveFor(h.Context(), 0, forced.Keys, forced.ticket, 60000, byForce); err != nil {
			h.Fatal(err)
		}
		time.Sleep(11 * time.Second) // it hears of that, or renews
		h.nodes[0].FlushAll()
		time.Sleep(11 * time.Second)
		if err := lease.Err(); err != nil {
			h.Errorf("it has two votes, and says %v", err)
		}
		if h.nodes[0].Exists("quorum:lock:{x}") {
			h.Error("the node has the holder that was forced there")
		}
	})
}

func TestAVoteWhoseFirstRenewalWasLostIsALeaseAsSoonAsItsNodeIsBack(t *testing.T) {
	for what, options := range map[string][]LockOption{"renewed": nil, "fixed": {LeaseFor(30 * time.Second)}} {
		t.Run(what, func(t *testing.T) {
			inFakeTime(t, 3, func(h *hushed) {
				l := h.locker()
				h.on(l, 2, renewScript, 1, 0)
				lease := h.has(l, "x", options...)
				time.Sleep(5 * time.Second)
				if left := h.nodes[2].TTL("quorum:lock:{x}"); left < 20*time.Second {
					h.Errorf("it lasts for %v", left)
				}
				if err := lease.Unlock(context.Background()); err != nil {
					h.Error(err)
				}
			})
		})
	}
}

func TestAFixedLeaseThatReachesANodeLateEndsThereNoLater(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		h.hush(2)
		lease := h.has(l, "x", LeaseFor(time.Minute))
		time.Sleep(50 * time.Second)
		h.answers()
		time.Sleep(2 * time.Second)
		if left := h.nodes[2].TTL("quorum:lock:{x}"); left < 7*time.Second || left > 9*time.Second {
			h.Errorf("after 52 s of a minute it has %v left", left)
		}
		if err := lease.Unlock(context.Background()); err != nil {
			h.Error(err)
		}
	})
}

func TestAVoteOfWhichAMessageToldIsMoreThanAClaimThoughAnOlderAnswerComesAfterIt(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		h.obeys = true
		l, other := h.locker(), h.locker()
		y := h.has(other, "y")
		waits := make(chan error, 1)
		go func() { // so the holder's process listens
			_, err := l.Lock(h.Context(), "y")
			waits <- err
		}()
		time.Sleep(time.Second)
		h.gives(2, other, "x")
		ticket, err := lua.ParseTicket(h.nodes[2].HGet("quorum:lock:{x}", "ticket"))
		if err != nil {
			h.Fatal(err)
		}
		h.asksItself(l, 0)
		h.on(l, 2, enterScript, 0, 0).late = silence - 50*time.Millisecond
		h.on(l, 2, renewScript, 0, time.Millisecond) // else a renewal goes out and a vote comes at one instant
		lease := h.has(l, "x")
		if err := lease.Extend(h.Context(), 30*time.Second); err != nil {
			h.Fatal(err)
		}
		keys, err := lua.NewKeys(l.prefix, "x")
		if err == nil {
			_, err = other.leaveFor(h.Context(), 2, keys, ticket, 0, itself)
		}
		if err != nil {
			h.Fatal(err)
		}
		time.Sleep(time.Second)
		if left := h.nodes[2].TTL("quorum:lock:{x}"); left <= lua.Claim {
			h.Errorf("it lasts for %v", left)
		}
		if err := y.Unlock(context.Background()); err != nil {
			h.Error(err)
		}
		if err := <-waits; err != nil {
			h.Error(err)
		}
		if err := lease.Unlock(context.Background()); err != nil {
			h.Error(err)
		}
	})
}

func TestTheUsualGrantInOneNumberSaysAllThatTheWholeReplySays(t *testing.T) {
	w := realNodes(t, 3)
	l := w.locker()
	w.unlock(w.has(l, "y")) // the nodes know the quorum
	ticket := l.core.Ticket(&engine.Request{Lease: 2500*time.Millisecond + time.Microsecond})
	var answers []ballot.Answer
	for _, length := range []int{1, 7} { // the second is asked whether it has what the first gave
		reply := w.enters(w.direct[0], l, 0, w.keys(l, "x"), ticket)
		a, err := decodeAnswer(reply, ticket.Claim())
		if len(reply) != length || err != nil {
			t.Fatalf("%v: %v", reply, err)
		}
		answers = append(answers, a)
	}
	first, again := answers[0], answers[1]
	if first.Now != first.Since || first.Left != 2500*time.Millisecond || again.Left > first.Left || again.Left < first.Left-time.Second {
		t.Errorf("granted at %d and for %v, and then there were %v left", first.Now, first.Left, again.Left)
	}
	if first.Now, first.Left = again.Now, again.Left; first != again {
		t.Errorf("%+v in short, and %+v", first, again)
	}
}

func TestANodeRemembersATokenForAsLongAsIsPromisedAlsoIfTheHolderDies(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		lease := h.has(h.locker(), "x")
		for range 40 {
			time.Sleep(time.Minute)
			for i, node := range h.nodes {
				if held, kept := node.TTL("quorum:lock:{x}"), node.TTL("quorum:token:{x}"); kept < held+lua.TokenKept {
					h.Errorf("node %d: the lock is held for %v, and the token is remembered for %v", i+1, held, kept)
				}
			}
		}
		if err := lease.Unlock(context.Background()); err != nil {
			h.Error(err)
		}
	})
}

func TestADamagedTokenEndsThoughTheLockIsHeld(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		lease := h.has(h.locker(), "x")
		time.Sleep(2 * time.Second) // it is decided everywhere
		_ = h.nodes[2].Set("quorum:token:{x}", "9007199254740992")
		h.nodes[2].SetTTL("quorum:token:{x}", lua.TokenTTL)
		time.Sleep(lua.TokenTTL + time.Minute)
		if token, err := h.nodes[2].Get("quorum:token:{x}"); err != nil || token != fmt.Sprint(lease.Token()) {
			h.Errorf("the token is %s, %v", token, err)
		}
		if err := lease.Unlock(context.Background()); err != nil {
			h.Error(err)
		}
	})
}
