// Package world has the words that the packages of test/ share: kinds of lock, calls that wait in
// the background, and a [Faulty] server with its users.
//
// A Faulty is a test's own server, real or embedded, with a proxy in front. The proxy loses and
// delays what the test tells it to. A [User] is a Locker with a client of its own, as every process
// has: [Faulty.Behind] the proxy or [Faulty.Beside] it. A [Wait] is a call of Lock. A test fails if
// two users trust the same lock at once. Every test ends with a look at what was left behind.
package world
