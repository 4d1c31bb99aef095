// Package workers runs lock users as real processes. It is for tests whose promise is about
// processes: goroutines cannot show what happens to a line when a process is killed or stopped.
//
// A worker is the test binary itself, run again. Its TestMain calls [Main] first, which takes over
// if the process was started as a worker. The test sends commands to the worker's standard input
// and reads events from its standard output, one JSON object a line (wire.go). A worker ends when
// its standard input does. Where the system allows, a worker also dies with the test binary.
//
// [Start] starts a worker, [Worker] is the test's handle on it, and a [Call] is a command with the
// events that answer it. The times of events are the test's own clock at their arrival.
//
// The package also reads a server's append-only file as a [Journal]: all writes in the order in
// which the server executed them, whoever asked. The journal is the witness for who waited and who
// came next.
package workers
