// Package java runs the real Redisson, in real JVMs, and is how tests and benchmarks drive it.
//
// [Find] looks for a JDK and Maven. [Classpath] has Maven fetch the jars of a version, once: they
// stay in the user's cache directory. [Compile] compiles a program against them, once for each
// text of the program. A test calls [Require] first, which skips it where Java is missing, or
// fails it where FAIRLOCK_REQUIRE_JAVA=1 promises that Java is there.
//
// [Start] starts a JVM with one Redisson client for a test, [Launch] does so for a program. A
// [Thread] of the [JVM] has an identity in Redisson's locks, and a [Call] is under way until the
// thread has answered it:
//
//	j := java.Start(t, java.Config{Version: java.V4, Addrs: []string{server.Addr()}})
//	a, b := j.Thread("a"), j.Thread("b")
//	err := a.Lock(java.Fair, "x").Err(ctx) // waits
//	waiting := b.Lock(java.Fair, "x")      // does not
//	err = a.Unlock(java.Fair, "x").Err(ctx)
//	err = waiting.Err(ctx)
//
// The JVM runs the program in peer, whose protocol is lines over standard input and output. It is
// killed with the process that started it, on Linux; elsewhere it ends when its input does.
//
// The tests of this package are also the record of what Redisson does on the wire.
//
// The package does not import testing, because a program may need it, too.
package java
