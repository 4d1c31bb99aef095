package java

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/locks/test/child"
)

//go:embed peer/*.java
var peer embed.FS

// Patience bounds the start and the end of a JVM. Neither should come near it.
const Patience = 2 * time.Minute

// ErrEnded is the error of a call that the JVM did not answer before it ended.
var ErrEnded = errors.New("the JVM has ended")

// JVM is a process with one Redisson client. Its methods may be called from any goroutine.
type JVM struct {
	process *process
	id      string        // the client's UUID
	ready   chan struct{} // closed when id is set

	writing sync.Mutex // held while a command is written, which may block if the process is stopped

	mu     sync.Mutex
	calls  map[string]*Call // guarded by mu; by the id of the command; those without an answer
	last   int              // guarded by mu; the number of the last command
	ended  bool             // guarded by mu; no answers come any more
	wanted bool             // guarded by mu; somebody wants the process to end
}

// Launch starts a JVM and returns when its client is connected. The caller ends it with Close or
// Kill. It also ends with this process. Tests call [Start].
func Launch(config Config) (*JVM, error) {
	if config.Version == "" {
		config.Version = V4
	}
	classes, err := Compile(config.Version, peer)
	if err != nil {
		return nil, err
	}
	tools, err := Find()
	if err != nil {
		return nil, err
	}
	args := append(config.jvmArgs(), "-cp", classes, "Peer")
	cmd := exec.Command(tools.Java, append(args, config.peerArgs()...)...)
	j := &JVM{ready: make(chan struct{}), calls: make(map[string]*Call)}
	if j.process, err = startProcess(cmd, j.listen); err != nil {
		return nil, fmt.Errorf("start a JVM: %w", err)
	}
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case <-j.ready:
		return j, nil
	case <-j.process.done:
	case <-timer.C:
	}
	j.Kill()
	return nil, fmt.Errorf("a JVM with Redisson %s did not connect: %s", config.Version, j.Stderr())
}

// ID returns the UUID of the client, with which each owner begins.
func (j *JVM) ID() string { return j.id }

// PID returns the id of the process.
func (j *JVM) PID() int { return j.process.cmd.Process.Pid }

// Stderr returns what the process has written to its standard error so far.
func (j *JVM) Stderr() string { return strings.TrimSpace(j.process.stderr.String()) }

// Kill is kill -9. It returns when the process is gone.
func (j *JVM) Kill() {
	j.want()
	j.process.kill()
}

// Stop stops the process (SIGSTOP) and returns when every thread has stopped.
func (j *JVM) Stop() error { return child.Stop(j.PID()) }

// Continue lets a stopped process go on (SIGCONT).
func (j *JVM) Continue() error { return child.Resume(j.PID()) }

// Close shuts the client down and ends the process. What its threads hold or wait for stays in
// Redis, as it does when a Java program ends.
func (j *JVM) Close() error {
	j.want()
	if err := j.process.quit(Patience); err != nil {
		return fmt.Errorf("close a JVM: %w: %s", err, j.Stderr())
	}
	return nil
}

func (j *JVM) want() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wanted = true
}

// endedByItself reports whether the process has ended though nobody wanted that.
func (j *JVM) endedByItself() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ended && !j.wanted
}

// ask sends a command. Its answer comes to the call.
func (j *JVM) ask(thread, verb string, args ...any) *Call {
	what := fmt.Sprintln(append([]any{thread + ":", verb}, args...)...)
	call := &Call{what: strings.TrimSpace(what), done: make(chan struct{})}
	j.writing.Lock()
	defer j.writing.Unlock()
	id, ok := j.expect(call)
	if !ok {
		call.end(nil, ErrEnded)
		return call
	}
	words := []string{id, url.QueryEscape(thread), verb}
	for _, arg := range args {
		words = append(words, url.QueryEscape(fmt.Sprint(arg)))
	}
	// If nobody reads any more, the process is about to end, and with it the call.
	_, _ = io.WriteString(j.process.stdin, strings.Join(words, " ")+"\n")
	return call
}

// expect gives the call a number, under which it gets its answer.
func (j *JVM) expect(call *Call) (id string, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended {
		return "", false
	}
	j.last++
	id = strconv.Itoa(j.last)
	j.calls[id] = call
	return id, true
}

// listen takes what the peer says to whom it concerns.
func (j *JVM) listen(stdout io.Reader) {
	in := bufio.NewReader(stdout)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break
		}
		words := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		for i, word := range words {
			if words[i], err = url.QueryUnescape(word); err != nil {
				words[i] = word
			}
		}
		j.hear(words)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = true
	for _, call := range j.calls {
		call.end(nil, ErrEnded)
	}
	clear(j.calls)
}

func (j *JVM) hear(words []string) {
	if words[0] == "ready" && len(words) == 2 {
		j.id = words[1]
		close(j.ready)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	call, ok := j.calls[words[0]]
	if !ok || len(words) < 2 {
		return
	}
	if words[1] == "grant" {
		call.granted(words[2:])
		return
	}
	delete(j.calls, words[0])
	if words[1] == "error" && len(words) == 4 {
		call.end(nil, &Exception{Class: words[2], Message: words[3]})
		return
	}
	call.end(words[2:], nil)
}
