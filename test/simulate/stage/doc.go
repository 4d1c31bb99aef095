// Package stage is what simulations in fake time have in common: random streams that follow from a
// seed, a history whose order is not left to chance, servers that execute one request at a time
// when they are told to, connections that carry whole requests, and users' code that does what it
// should not.
package stage
