// Package simulate runs whole clients over an embedded server in fake time, under faults that
// follow from a seed. Meanwhile a referee judges the invariants of the design. The referee sees the
// server's state and every client's belief.
//
// A [Plan] is a run: [Run] it in a bubble of testing/synctest. A client is a process with a Locker,
// a pool of connections, and goroutines that lock, nest, extend, give up, panic and stay too long
// (client.go, actor.go, call.go). Several clients share a few locks of a miniredis (server.go). The
// network between them carries whole requests, replies and messages (link.go, conn.go). A storm
// brings faults in spells, with calm weather in between (faults.go, answers.go).
//
// Users make [Trouble] of their own, in all weathers. Their callbacks, Observers, loggers and
// contexts block, panic, end their goroutines and call back (queued.go, teller.go). In bad weather
// the hooks of their go-redis clients do (hooks.go); some clients have no timeouts. They close
// their Lockers at any time (closing.go). A stranger with rights to one lock writes anything into
// its keys, and publishes messages that say anything (stranger.go); the other locks must not
// notice.
//
// # What makes it the same every time
//
// The server executes one request at a time, in no time, when a timer says so. Each frame's delay
// and fate are drawn from the seed, its content and the instant of its sending, so it does not
// matter which goroutine came first. A client's commands begin at instants of their own (pacer),
// and its id follows from the seed. The random backoff of go-redis is off. The order of a map
// affects neither delays nor the history. What happens at one instant is sorted.
//
// One thing is left to chance: which of two goroutines of a client goes first when both wake at one
// instant. With fair locks, one run in thirty turns out differently for that reason. With plain
// locks most runs do, because the waiters of each lock try again when they are subscribed again. So
// do runs with calls for several locks, whose goroutines number their tickets.
//
// # What the referee judges
//
//   - 1: no two Leases of different owners are trusted at one instant (belief.go). Trust begins
//     when the call returns. It ends when Unlock is called or Lease.Deadline has passed, whether or
//     not anybody looks. For a user that looks at the contexts, trust ends with the last of them,
//     which is not after the Deadline (context.go). No mutex is held while the user's code runs
//     (trouble.go). Every other request leaves a live hold as it is (referee.go). A lock that is
//     lost by its lease leaves no sooner than that ends: its user may be stopping (stopping.go).
//   - 2: a grant passes by no waiter that is alive and reachable, and no such waiter is dropped
//     from the line. Who is evicted is told so, and nobody else is.
//   - 3: tokens only grow. A resource that remembers the largest token refuses no holder that has
//     trust.
//   - 4: a free lock is given to an undisturbed waiter within 12 s, and in calm weather within a
//     few messages (progress.go). Calls end when their time is up, and all of them end once the
//     faults are over. No call fails in calm weather, nor a nested one whose lock is trusted. No
//     try is turned away from a free lock. No waiter fails because of a state of the server that
//     passes.
//   - 5: every key has an end; after the last client all vanish.
//   - 6: what Unlock says is what the server did.
//   - 7: a closed client leaves no ticket, subscription, connection or goroutine. Its Locker gives
//     no Lease, and its contexts have ended. A call that has ended, in whatever way, leaves nothing
//     with a server that can be reached (orphans.go). A context of the user's is asked for its
//     values elsewhere, and for anything else in its call's goroutine alone.
//
// Each exemption stands where it is made, with its reason. [referee.exempt] has those of 1. In
// short, these may overlap with others:
//
//   - a forced holder, until it can have heard of the force;
//   - a holder whose lease the server's clock stepped over by more than the margin;
//   - after a loss of data, a newcomer that came before any client that knew the holder; an older
//     ownership that came back before such a client; and a holder that did not come back for as
//     long as the lock was kept for it.
//
// After a loss of data, tokens are as large as the server's clock.
//
// # What it does not show
//
// A bubble has one clock. A paused client stands still, and jumps when it goes on: its code, its
// network, the deadlines of its connections, and the timers of the library that matter (heartbeats,
// renewals, the end of trust). [engine.WithAlarm] is the hook for that. The timers of waits and
// pings go on, but their effects stay inside the client.
//
// Dials and handshakes take no time, since go-redis holds a mutex meanwhile. Where a dial would
// hang, it fails, so bounds that depend on dials and pools are not tried. No answered request is
// executed again after its answer: nothing between a client and Redis does that. There is one
// server: no replicas, no cluster, no real Redis.
package simulate
