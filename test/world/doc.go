// Package world has the words that the rooms of test/ share: kinds of lock, calls that wait in the
// background, and a [Faulty] server with its users.
//
// A Faulty is a server of a test's own, real or embedded, with a proxy before it that loses and
// delays what the test wants lost and delayed. A [User] is a Locker with a client of its own, as
// every process has one: [Faulty.Behind] the proxy or [Faulty.Beside] it. A [Wait] is a call of
// Lock. Whoever trusts a lock while another one does fails the test, and every test ends with a
// look at what was left behind.
package world
