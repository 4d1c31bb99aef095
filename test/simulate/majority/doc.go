// Package majority runs whole clients of package quorum over several embedded servers in fake time,
// under faults that follow from a seed. It is to a quorum what package simulate is to one server.
//
// Each node has its own clock, which is milliseconds to hours away from the others and drifts by
// less than the margin, its own run id, and its own faults: it hangs and goes on, is killed and
// comes back empty, with its data or with that of minutes ago, is flushed, is slow. Each client has
// a link of its own to each node, which loses, delays and holds back. Some clients have no
// timeouts, and in bad weather hooks of their go-redis clients take their time, panic and end
// goroutines (hooks.go). Clients are killed, paused and closed (faults.go). In between the weather
// is calm. In all weathers users' callbacks, Observers and loggers block, panic, end their
// goroutines, call back and close the Locker (users.go, teller.go). Their contexts, whatever they
// are asked, block, panic and end their goroutines. In a third of the seeds some calls are for
// several locks at once (several.go).
//
// A referee judges: at no instant are two Leases of different owners trusted, whatever number of
// nodes forget (1); who has its place at a majority is not overtaken by a call that began later,
// and not dropped (2); tokens grow (3); a free lock is had, in calm weather within two round trips
// and for two seconds before it is renewed, and within eight trips where votes are split; at all
// times a lock is had for a tenth of a claim at least, and kept by whoever reaches a majority;
// no nested call fails in calm weather, and no try of a free lock that nobody else asks for is
// turned away; calls end in time, and while a majority can be reached the other nodes keep an
// Unlock, a try and a call for a free lock for 300 ms at most (4); keys have an end (5); Unlock
// tells the truth (6); a closed client and a call that has ended leave nothing, and a Locker that
// is closed gives nobody a Lease, and a user's context is asked for all but its values in its
// call's goroutine alone (7). For each of these a test breaks the code (broken_test.go).
//
// Exempt are: a forced holder, for a lease, from (1) and (6); tokens after a loss of data where the
// nodes' clocks are more than a claim apart; a waiter that reaches no majority, which may be
// overtaken; a holder that lacks a node's vote because a client has it that does not reach the
// node, or because the node came back with old data; what takes longer, or is lost meanwhile,
// because the user's own code keeps a call, for as long as that runs.
package majority
