// Package explore searches every history of a small world. The world has three clients, one lock,
// the real scripts, and a network that delays, doubles and loses.
//
// A state (state.go) is the lock's keys, what each client knows, and what is on its way between
// them. From each state the search tries every move (moves.go): a client's requests, the network's
// faults, the passing of time. The .lua files themselves execute the requests. Package lua's typed
// calls send them to a miniredis that was put into that state (engine.go). The result of a script
// in a state is remembered, so each script runs once per state. The clients use the shipped rules
// of internal/rules (client.go, ends.go): each of their attempts is a rules.Waiter and then a
// rules.Hold.
//
// States that differ only in what cannot matter count as one (normal.go): times count from now,
// tokens and places are ranks, and clients with the same program may swap names. Faults, jumps of
// time and tickets have budgets, so the search ends by itself. The search is breadth first, so the
// history of a violation is the shortest there is (search.go).
//
// The invariants are judged separately (truth.go, check.go, drain.go). The judges go by what was
// executed, not by what the server wrote down. They excuse what docs/safety.md excuses, and no
// more:
//
//   - Invariant 1 does not count a holder whose ownership was forced, until its client hears of
//     that by message or answer.
//   - After a loss of all data, a newcomer may get the lock if its request comes before any request
//     of a client that knows the holder. The earlier holder is then excused. A force and a leave
//     that were executed before the loss are forgotten with the rest.
//   - After one ticket of a client was passed over, the client's later tickets are not due until
//     its next enter.
//   - An enter makes its client blind even if the process that sent it is gone. The tickets of that
//     client may then be granted for a claim.
//   - Invariant 7 says that a call that has ended leaves nothing with the server. Three cases are
//     excused. First, a closed client sends one leave only, and that leave went unanswered. Second,
//     the trust in a hold ran out with no request open: the hold ends by itself. Third, data was
//     lost between the leave and a still later request for which nobody waits.
//
// A client's trust is judged by the context of its Lease. That context ends with ErrLost, with the
// release, or when the client is closed. A callback that panics is modelled as a caller that gives
// up at that instant, before the grant or between the grant and the Lease (ends.go). While a state
// is drained, every client knows of the record only what its own answers said. So the search sees a
// lock that stays idle beyond the end of a dead client's claim.
//
// Not covered: fixed leases, nested holds, more than two tickets of a client, replicas, eviction,
// the plain lock, clocks that step or run apart, requests that are later than a minute or than the
// patience of a leave, and the order among the waiters that come back after a loss.
package explore
