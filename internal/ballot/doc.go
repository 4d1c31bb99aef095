// Package ballot is the rules of a lock that a majority of nodes keeps: what follows from a node's
// answer, a message, a timer, a caller that gives up, for one call at all nodes. A [Ballot] is a
// value: it has no clock, takes no mutex, starts no goroutine and does no I/O. Events go in; what
// to ask of which node, and what becomes of the call, comes out. Package quorum drives it, and so
// does the model checker.
//
// Each node has one vote for a lock. A call that has a majority of votes at one instant is decided:
// it has the lock. A call stands at the same place in the line of every node: the latest of those
// that a majority proposed (Skeen's total order). Each node gives its vote to the first in its
// line. A call that has votes and no majority gives them to whoever is older and asks for them
// (Maekawa's algorithm). So nobody waits in a circle, and no timer ends a split.
//
// # A call
//
//	Waiting ── Hold ──> Granted ── Release ──> Leaving
//	   └───── an end ─────────────────────────────┘
//
// A call waits from its first request until [Ballot.Judge] says what becomes of it. A call that is
// granted the lock strives for the votes of all nodes for as long as it holds: the more it has, the
// more nodes have to break their promises at once before somebody else can be decided.
//
// # A leg
//
// A leg is the call at one node, and is a [rules.Waiter] with a claim for its lease. It is Granted
// while it has the node's vote. A vote that is given back is known by its token: whatever is said
// of that token later is old. So one ticket does for the whole call.
package ballot
