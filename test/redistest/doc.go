// Package redistest runs a real redis-server for one test.
//
// A fake server is fast and can live in fake time, but it cannot show what the
// real one does with a Lua script, a cluster slot, a frozen process or a
// restart. [Start] gives a test a server of its own on a free loopback port;
// the server is gone when the test is, even if the test binary is killed.
//
// The program is the one named by the environment variable REDIS_SERVER, else
// "redis-server" from PATH. Without one the test is skipped, loudly; with
// FAIRLOCK_REQUIRE_REDIS=1 it fails instead, so that CI cannot pass by
// skipping.
//
// Real sockets do not work inside a testing/synctest bubble: use miniredis
// there.
package redistest
