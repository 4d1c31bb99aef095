// Package simulate runs whole clients over an embedded server in fake time, under faults that follow from a seed, while a
// referee who sees the server's state and every client's belief judges the invariants of the design.
//
// A [Plan] is a run: [Run] it in a bubble of testing/synctest. Some clients, each a process with
// a Locker, a pool of connections and goroutines that lock, nest, extend, give up, panic and stay
// too long (client.go, actor.go, call.go), share a few locks of a miniredis (server.go). Between
// them is a network that carries whole requests, replies and messages (link.go, conn.go), and a
// storm that brings faults in spells, with calm weather in between (faults.go, answers.go).
//
// Users make [Trouble] of their own, in all weathers: their callbacks, Observers, loggers and
// contexts block, panic, end their goroutines and call back (queued.go, teller.go), and they
// close their Lockers whenever they like (closing.go). A stranger with rights to one lock writes
// what he likes there, and sends messages that say what he likes (stranger.go); the other locks
// are not to notice.
//
// # What makes it the same every time
//
// The server executes one request at a time, in no time, when a timer says so. Each frame's delay and fate are drawn
// from the seed, its content and the instant it was sent at, so it does not matter which goroutine came first. A
// client's commands begin at instants of their own (pacer), its id follows from the seed, go-redis' random backoff is
// off, and what comes from a map's order has none in delays and in the history. What happens at one instant is sorted.
// What is left to chance is which of two goroutines of a client goes first that wake at one instant: of fair locks one run in thirty
// turns out otherwise, of plain ones, whose rooms all try when they are subscribed again, most do.
//
// # What the referee judges
//
//   - 1: no two Leases of different owners are trusted at one instant (belief.go). Trust lasts from the return of the call
//     until Unlock is called or Lease.Deadline has passed, whether or not anybody looks; and for him who looks at the contexts,
//     until the last of them has ended, which is not after the Deadline (context.go). No mutex is held while the user's code
//     runs (trouble.go). Every other request leaves a live hold as it is (referee.go).
//   - 2: a grant passes by nobody in line who is alive and reachable, and nobody such is dropped.
//   - 3: tokens only grow, and whoever has trust is not refused by a resource that remembers the largest.
//   - 4: a free lock is given to an undisturbed waiter within 12 s, in calm weather within a few messages (progress.go); calls
//     end when their time is up, all of them once the faults are over; none fails in calm weather, and none that waits for
//     a state of the server that passes.
//   - 5: every key has an end; after the last client all vanish.
//   - 6: what Unlock says is what the server did.
//   - 7: a closed client leaves no ticket, subscription, connection or goroutine, gives no Lease, and its contexts have ended. Of a
//     call that has ended, however that was, nothing stays with a server that can be reached (orphans.go).
//
// An exemption stands where it is made, with its reason: see [referee.exempt] for those of 1. In short: a forced holder
// until it can have heard of that; a holder whose lease the server's clock stepped over by more than the margin; and after a
// loss of data, a newcomer who came before anybody who knew, an older ownership that came back before such a one, or a holder
// that did not come back for as long as the lock was kept for it. After such a loss, tokens are as large as the server's clock.
//
// # What it does not show
//
// A bubble has one clock. In a client that is paused its code, its network, the deadlines of its
// connections and the timers of the library that matter (heartbeats, renewals, the end of trust)
// stand still, and jump when it goes on: [engine.WithAlarm] is the hook for that. Those of waits
// and pings go on, and what they do stays inside. Dials and handshakes take no time, since
// go-redis holds a mutex meanwhile; where a dial would hang, it fails: bounds that hang on dials
// and pools are not tried. An answered request is not executed again later than its answer:
// nothing between a client and Redis does that. There is one server: no replicas, no cluster, no
// real Redis.
package simulate
