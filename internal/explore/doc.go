// Package explore searches every history of a small world: three clients, one lock, a network that delays, doubles and
// loses, and the real scripts.
//
// A state (state.go) is the lock's keys, what each client knows, and what is on its way between them. From each, every
// move (moves.go) is tried: a client's requests, the network's faults, the passing of time. Requests are executed by the
// .lua files themselves, sent through package lua's typed calls to a miniredis that was put into that state (server.go); what a
// script did to a state is remembered, so it runs once for each. The clients keep the rules of package fairlock and
// reentrant (client.go), spelled out once more.
//
// States that differ only in what cannot matter are one (normal.go): times count from now, tokens and places by rank, and
// clients with the same program may change their names. Faults, jumps of time and tickets have budgets, so the search ends
// by itself; it goes breadth first, so the history of a violation is the shortest there is (search.go).
//
// What must hold is judged beside it, by what was executed and not by what the server wrote down (check.go, drain.go).
package explore
