// Package torture has six worker processes use locks of both kinds on a real server in every way there is, while a saboteur
// kills and stops the workers, harms the server and the wires between them, and then judges what the workers say that
// happened.
//
// A worker (worker.go, workload.go, others.go) writes each of its calls down as it happens, in a
// file of its own (wire.go), so that a killed one has lost no more than its last line. Times are
// those of the wall clock that all processes of a machine and its server share. Its callbacks
// (callbacks.go) panic, end their goroutines, block and call back; its Lockers (lockers.go) are
// closed at any instant, and others are in their places; its leases last from 100 ms to minutes.
// The saboteur (saboteur.go, tricks.go, states.go) deals its tricks from a shuffled deck, each
// once, and then keeps quiet for a while. What the locks protect is a [resource], which lives in
// the test's own process and outlives everybody.
//
// # The judges
//
// They know what is promised, and nothing of how the library keeps it.
//
//	trust.go     no two owners trust a lock at one time, by Err or by their contexts; tokens grow in the order of the calls
//	endings.go   contexts end with the trust, and when a Locker is closed; a closed one gives out nothing; nothing is lost, and no
//	             waiter fails, because of what happens to another lock or passes
//	model.go     the same by porcupine: the calls are linearizable as a lock with leases
//	order.go     by the server's own journal (line.go): grants follow the line, nobody who is there is passed over, and no lock
//	             is free for long while somebody waits
//	ghosts.go    no ticket is in line, or holds a lock, for long after its call has ended
//	waits.go     a call hears of its grant, and has its turn at a lock that is free
//	history.go   every call of a survivor ends, and those with a limit in time
//	resource.go  old tokens are refused, and the counters end exactly at the number of writes that were accepted
//	keys.go      what is left when everybody has gone vanishes in time
//
// # What they excuse
//
//   - Two may trust a lock for a lease around a loss of data, if one was granted it before and the other after. It is counted.
//   - A waiter may be passed over if a trouble that ends subscriptions befell its process at that time, or a little before
//     (reach.go), and overtaken from then until it is back in its place. After a loss of data all are out until they are back.
//   - A write may be refused to somebody who trusts the lock, within the same lease around a loss of data.
//   - A context may end as much later as its process stood still, which it measures, and as scheduling takes.
//   - What a closed Locker could not take back in one try is not its fault.
//   - Of a lock whose keys anybody writes nothing is promised, and of all others everything.
package torture
