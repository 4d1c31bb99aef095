// Package workers runs lock users as real processes, for tests whose promise is about processes: what happens to a line
// when one of them is killed or stopped cannot be shown with goroutines.
//
// A worker is the test binary itself, run again: its TestMain calls [Main] first, which takes over where the process
// was started as a worker. The test tells it what to do with commands on its standard input and hears what happened as
// events on its standard output, one JSON object a line; both ends of that are in wire.go. A worker ends when its standard
// input does, and with the test binary's own death where the system can arrange that.
//
// [Start] starts one, [Worker] is the test's handle on it, [Call] is a command and the events that answer it. Times of
// events are the test's own clock at their arrival.
//
// The package also reads a server's append-only file as a [Journal]: what was written, in the order in which the server
// did it, whoever asked. It is the witness for who waited and who came next.
package workers
