// Package majority searches every history of a small quorum: three nodes, one lock, two or three
// calls, and a network that takes its time.
//
// A node is a value (node.go), and does what the scripts of package quorum do (scripts.go). Random
// programs compare it with the .lua files, which run on an embedded server: replies, messages and
// keys. A call is a [ballot.Ballot] and then a [rules.Hold]: the rules that ship. What drives them
// is package quorum's own driving, function by function (client.go, holder.go, breaks.go), as there
// is no I/O, mutex or goroutine here; a test says when a function has changed that was copied. Each
// call is of a client of its own.
//
// From each state the search tries every move (moves.go). Requests of a call to a node are executed
// in any order, answers come in any order, messages in the order of their node. A scenario says how
// many answers and messages may be under way while something else happens, and how often what may
// break: a node that restarts empty, with old data or with its data, is flushed, hangs or dies; a
// request or an answer that is lost, a request that is executed after its call gave it up; a
// subscription that breaks; a client that is killed; a force; an eviction; a caller that gives up;
// a clock that is ahead. Time stands still but for steps that a scenario allows: two end the trust
// in a vote, three end the vote. Then the timers of calls go off, sooner or later.
//
// States that differ only in the names of nodes, or in what cannot matter any more (forget.go),
// count as one. A scenario is searched to its end, in depth (deep.go). Faults are searched for in
// breadth, so their histories are short (search.go). What is too large is followed at random
// (wander.go).
//
// The judges (check.go):
//
//   - exclusion: no two calls trust that they have the lock. A call that was forced does not count
//     while the messages that say so are under way, or if it did not hear them. A node that loses
//     the keys of a lock and does not know counts only while a holder has all votes.
//   - tokens: each call that is decided has a larger one.
//   - order: no call is decided before one that waits and had its final place at a majority of
//     nodes when none had executed a request of the first. Time and faults void that.
//   - stuck, left behind: where nothing happens any more, all calls have ended for a reason, and no
//     vote or place is left. If a fault may have to be mended by a timer, time then passes, for 20
//     s.
//   - livelock: no history leads in a circle.
//   - unlock: without a fault, a release says that the lock was held until then.
//   - lost, renewal: no hold is lost, and no node refuses to renew it, unless it was forced, time
//     passed, data or requests were lost, or a request came late.
//   - evict: no call waits on that was told of its eviction, and none is decided that a majority of
//     nodes has taken out. Who is decided meanwhile keeps the lock.
//
// Not covered: several calls of a client, more than three nodes, leases other than a claim, leases
// that end while they are renewed late, the ends of marks, lines and token keys, an administrator
// who sees nodes at different times, and what is above a Ballot in package engine.
package majority
