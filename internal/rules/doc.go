// Package rules is the client's half of the protocol: what an answer, a message, a timer or a
// caller that gives up means for a ticket.
//
// Its values know no clock, no mutex, no goroutine and no server. An event comes in with the time
// at which it happened, the value changes, and a [Step] comes out: what the client has to do now.
// Packages fairlock and reentrant keep the tables, timers and goroutines, and do what the steps
// say. A call of package quorum has a [Waiter] for each node, in internal/ballot. Package redisson
// has waiters of its own; of here it uses the terms and, as all do through package engine, the
// [Hold]. The explorer in test/explore drives the same values through every history of a small
// world.
//
// docs/design.md in the repository tells the whole protocol in order.
//
// # A ticket's life
//
// A call that asks for a lock is a ticket. A [Waiter] is the ticket until it has the lock or has
// given up. A [Hold] is the ticket while it has the lock. Neither ever goes back, with one
// exception: a ticket that is Gone leaves once more if the server turns out to have it. A ticket of
// a run has no Hold of its own: it follows another ticket on that one's Hold, and leaves with a
// renewal of that Hold, or with its end.
//
// In internal/ballot, Granted is one node's vote for a call. Such a Waiter does go back: the ballot
// makes it Waiting again when the vote ends, is lost or is given back, and sets its Shown and Last.
//
//	Waiter   Waiting ──granted──> Granted (its Hold begins)
//	            ├─────follows───> Granted (its turn on another ticket's Hold begins)
//	            │
//	            ├──something of it may be with the server──> Leaving ──answered, or given up──> Gone
//	            └──nothing of it ever reached the server────────────────────────────────────> Gone
//
//	Hold     Held ──nobody has a Lease on it, and it Passes──> Held (the next turn on it)
//	            ├──nobody has a Lease on it──────────────────> Releasing ──see Outcome──> Over
//	            └──expired, vanished, forced──> Lost (does the ticket have to leave? see Lose)
//
// # Time
//
// Trust counts from when a request was sent, never from when its answer came: the server cannot
// have executed the request before it was sent. A [Term] ends trust a [Margin] before the server
// can give the lock away. The server's clock is compared only with itself, see [Waiter.Heard].
//
// # Late requests
//
// The server may execute a request up to a minute after the client gave the request up. [Requests]
// remembers whether a ticket has such a request. If the ticket leaves, it is retired: the server
// then refuses what comes late. That is why [Waiter.Leave] and [Hold.Leave] say Retire, and why a
// leave is repeated for as long as [Patience] says.
package rules
