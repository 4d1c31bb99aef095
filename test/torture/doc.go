// Package torture has six worker processes use locks of both kinds on a real server, in every way
// there is. Meanwhile a saboteur kills and stops the workers, and harms the server and the
// connections between them. At the end judges examine what the workers say that happened.
//
// A worker (worker.go, workload.go, others.go) writes down each of its calls as it happens, in a
// file of its own (wire.go). So a killed worker has lost no more than its last line. Times are
// those of the wall clock that all processes of a machine and its server share. A worker's
// callbacks (callbacks.go) panic, end their goroutines, block and call back. Its Lockers
// (lockers.go) are closed at any instant, and others take their places. Its leases last from 100 ms
// to minutes.
//
// The saboteur (saboteur.go, tricks.go, states.go) deals his tricks from a shuffled deck, each
// once, and then keeps quiet for a while. The locks protect a [resource], which lives in the test's
// own process and outlives all workers.
//
// # The judges
//
// The judges know what is promised, and nothing of how the library keeps the promises.
//
//	trust.go     no two owners trust a lock at one time, by Err or by their contexts; tokens grow
//	             in the order of the calls
//	endings.go   contexts end with the trust, and when a Locker is closed; a closed Locker gives
//	             out nothing; no lock is lost, and no waiter fails, because of what happens to
//	             another lock or passes
//	model.go     the same by porcupine: the calls are linearizable as a lock with leases
//	order.go     by the server's own journal (line.go): grants follow the line, no waiter that is
//	             present is passed over, and no lock is free for long while a waiter is in line
//	ghosts.go    no ticket is in line, or holds a lock, for long after its call has ended
//	waits.go     a call hears of its grant, and has its turn at a free lock
//	history.go   every call of a survivor ends, and every call with a limit ends in time
//	resource.go  old tokens are refused, and the counters end exactly at the number of accepted
//	             writes
//	keys.go      the keys that are left after the last process vanish in time
//
// # What they excuse
//
//   - Around a loss of data, two owners may trust a lock for up to a lease, if one was granted the
//     lock before the loss and the other after it. The report counts these cases.
//   - A waiter may be passed over if a trouble that ends subscriptions affected its process at that
//     time, or a little before (reach.go). It may be overtaken from then until it is back in its
//     place. After a loss of data all waiters are out until they are back.
//   - A write may be refused to an owner that trusts the lock, within the same lease around a loss
//     of data.
//   - If the machine kept the server, or the process with the proxies, from working for 200 ms,
//     that is a trouble for everybody.
//   - A context may end later by as much as its process stood still, which the process measures,
//     and by as much as scheduling takes.
//   - What a closed Locker could not take back within its last second is not its fault.
//   - Nothing is promised of a lock whose keys anybody may write. All is promised of the others.
//
// # A quorum
//
// The same is done to the locks of package quorum, by 16 goroutines in each of four workers
// (quorum_work.go), each with a proxy before each node (quorum_arena.go). Here the saboteur
// (quorum_saboteur.go, quorum_tricks.go) kills nodes, any number at once, and restarts them empty,
// with what they had, or with a copy of earlier data. He stops them for up to a minute, flushes
// them, and has each process see another majority. All of that is within what is promised, so no
// loss of data excuses an overlap or a token that falls. Only ForceUnlock excuses that two owners
// trust one lock, the lock that is forced. Other judges (quorum_judges.go) excuse a process only
// for the time in which it had no majority of the nodes. A watch (quorum_watch.go) looks at the
// nodes for tickets of calls that have ended. The report tells how wide the gaps between owners
// were around the instant at which one node was killed or stopped, and nothing else happened.
package torture
