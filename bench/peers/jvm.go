package peers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/fairlock/locks/bench/child"
	"github.com/fairlock/locks/test/java"
)

// jvm is a running Java program that answers lines; redisson/Jar.java has their form.
type jvm struct {
	process *child.Process
	in      io.WriteCloser
	stderr  bytes.Buffer  // may be read once the process is gone
	silent  chan struct{} // closed when there will be no more answers

	mu    sync.Mutex // guards all below, and writing to in
	next  int
	calls map[string]*jvmCall
	err   error // set when there will be no more answers
}

// jvmCall is a line that was sent, with its answers.
type jvmCall struct {
	jvm     *jvm
	id      string
	answers chan string // closed when there will be no more
}

// startJVM starts a program and waits for its first answer.
func startJVM(args ...string) (*jvm, error) {
	tools, err := java.Find()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(tools.Java, args...)
	j := &jvm{silent: make(chan struct{}), calls: map[string]*jvmCall{}}
	cmd.Stderr = &j.stderr
	if j.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// StdoutPipe does not do: Wait would close the pipe under the reader.
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = theirs
	ready := j.expect()
	j.process, err = child.Start(cmd)
	_ = theirs.Close() // the child has a copy
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	go j.listen(out)
	if _, err := ready.last(0); err != nil {
		j.close()
		return nil, fmt.Errorf("%w\n%s", err, j.stderr.String())
	}
	return j, nil
}

// listen passes answers on until the program ends.
func (j *jvm) listen(out io.ReadCloser) {
	defer close(j.silent)
	defer out.Close()
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			j.fail(errors.New("the JVM has ended"))
			return
		}
		id, answer, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		j.mu.Lock()
		if call := j.calls[id]; call != nil {
			select {
			case call.answers <- answer:
			default: // nobody will ask for it
			}
		}
		j.mu.Unlock()
	}
}

// fail ends all calls.
func (j *jvm) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = err
	for _, call := range j.calls {
		close(call.answers)
	}
	clear(j.calls)
}

// expect returns a call that is not sent.
func (j *jvm) expect() *jvmCall {
	j.mu.Lock()
	defer j.mu.Unlock()
	call := &jvmCall{jvm: j, id: strconv.Itoa(j.next), answers: make(chan string, 2)}
	j.next++
	if j.err != nil {
		close(call.answers)
	} else {
		j.calls[call.id] = call
	}
	return call
}

// call sends a command. Its words have no spaces in them.
func (j *jvm) call(words ...string) *jvmCall {
	call := j.expect()
	j.send(call.id, words)
	return call
}

// tell sends a command whose answer belongs to another.
func (j *jvm) tell(words ...string) { j.send("-", words) }

func (j *jvm) send(id string, words []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// A program that has ended closes the answers, too.
	_, _ = fmt.Fprintln(j.in, id+" "+strings.Join(words, " "))
}

// numbers waits for the next answer and returns its numbers; least is how many there must be.
func (c *jvmCall) numbers(least int) ([]int64, error) {
	answer, ok := <-c.answers
	if !ok {
		c.jvm.mu.Lock()
		defer c.jvm.mu.Unlock()
		return nil, c.jvm.err
	}
	words := strings.Fields(answer)
	if len(words) == 0 || words[0] != "ok" {
		return nil, fmt.Errorf("the JVM: %s", answer)
	}
	var all []int64
	for _, word := range words[1:] {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	if len(all) < least {
		return nil, fmt.Errorf("the JVM: %d numbers, want %d", len(all), least)
	}
	return all, nil
}

// last is numbers for a call's last answer.
func (c *jvmCall) last(least int) ([]int64, error) {
	all, err := c.numbers(least)
	c.jvm.mu.Lock()
	defer c.jvm.mu.Unlock()
	delete(c.jvm.calls, c.id)
	return all, err
}

// close ends the program, whatever it does, and returns when it is gone.
func (j *jvm) close() {
	j.process.Kill()
	_ = j.in.Close() // a pipe that nobody reads
	<-j.silent
}
