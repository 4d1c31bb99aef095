// Package torture has six worker processes use fair locks on a real server in every way there is, while a saboteur kills and
// stops the workers, harms the server and the wires between them, and then judges what the workers say that happened.
//
// A worker (worker.go, workload.go) writes each of its calls down as it happens, in a file of its own (wire.go), so that a
// killed one has lost no more than its last line. The saboteur (saboteur.go, tricks.go) deals its tricks from a shuffled deck. What the
// locks protect is the [resource], which lives in the test's own process.
//
// The judges know nothing of how the library works:
//
//	trust.go   no two owners trust a lock at one time; tokens grow in the order of the calls
//	model.go   the same by porcupine: the calls are linearizable as a lock with leases
//	order.go   the server's own journal: grants follow the line, and nobody is passed over who was there
//	keys.go    what is left when everybody has gone vanishes in time
//	resource   refuses old tokens, and ends exactly at the number of writes that it accepted
package torture
