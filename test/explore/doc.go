// Package explore searches every history of a small world: three clients, one lock, a network that delays, doubles and
// loses, and the real scripts.
//
// A state (state.go) is the lock's keys, what each client knows, and what is on its way between
// them. From each, every move (moves.go) is tried: a client's requests, the network's faults, the
// passing of time. Requests are executed by the .lua files themselves, sent through package lua's
// typed calls to a miniredis that was put into that state (server.go); what a script did to a state
// is remembered, so it runs once for each. The clients keep the shipped rules, those of
// internal/rules (client.go, ends.go): each of their attempts is a rules.Waiter and then a
// rules.Hold.
//
// States that differ only in what cannot matter are one (normal.go): times count from now, tokens and places by rank, and
// clients with the same program may change their names. Faults, jumps of time and tickets have budgets, so the search ends
// by itself; it goes breadth first, so the history of a violation is the shortest there is (search.go).
//
// What must hold is judged beside it (truth.go, check.go, drain.go), by what was executed and not by what the server wrote down.
// What is excused is what docs/safety.md excuses, and no more:
//
//   - A holder that force has ended is excused from invariant 1 until it hears of that, by message or answer.
//   - After a loss of all data a newcomer that comes before any request of one who knows may have the lock; the holder of before
//     is then excused. A force, and a leave, that were executed before the loss are forgotten with the rest.
//   - A client's later tickets are not due while an earlier one was passed over and the client has not entered since.
//   - An enter makes its client blind even if the process that sent it is gone, so its tickets may be granted for a claim.
//   - What a call has left with the server when it ended (invariant 7) is not taken back if its client was closed and the one leave
//     that it then sends went unanswered; nor of a hold whose trust ran out with nothing open, which ends by itself; nor if data was
//     lost between the leave and a request that is later still and that nobody waits for.
//
// Trust is judged by a Lease's context: it ends with ErrLost, with the release, or when the
// client is closed. Callbacks that panic are callers that give up at that instant, before the
// grant or between it and the Lease (ends.go). While a state is drained every client knows of the
// record only what its own answers said, so a lock that is idle beyond the end of a dead one's
// claim is seen.
//
// Not looked at: fixed leases, nested holds, more than two tickets of a client, replicas,
// eviction, the plain lock, clocks that step or run apart, requests that are later than a minute
// or than the patience of a leave, and the order among those who come back after a loss.
package explore
