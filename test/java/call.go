package java

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Exception is what a call in Java threw.
type Exception struct{ Class, Message string }

func (e *Exception) Error() string { return e.Class + ": " + e.Message }

// Call is a command to a thread of a JVM. It is under way until its answer has come. Err, Bool, Int
// and Text wait for the answer; the error is an [*Exception] if the call in Java threw one,
// [ErrEnded] if the JVM ended before, and the context's own if that ended the wait.
type Call struct {
	what   string // for messages
	done   chan struct{}
	answer []string // final once done is closed
	err    error    // the same

	mu     sync.Mutex
	grants []Grant // guarded by mu
}

// Done returns a channel that is closed when the answer has come.
func (c *Call) Done() <-chan struct{} { return c.done }

// Err waits for the call to return.
func (c *Call) Err(ctx context.Context) error {
	_, err := c.Text(ctx)
	return err
}

// Text waits for the answer.
func (c *Call) Text(ctx context.Context) (string, error) {
	select {
	case <-c.done:
	case <-ctx.Done():
		return "", fmt.Errorf("%s: has not returned: %w", c.what, ctx.Err())
	}
	if c.err != nil {
		return "", fmt.Errorf("%s: %w", c.what, c.err)
	}
	return strings.Join(c.answer, " "), nil
}

// Bool waits for an answer that is true or false.
func (c *Call) Bool(ctx context.Context) (bool, error) {
	text, err := c.Text(ctx)
	if err != nil {
		return false, err
	}
	return strconv.ParseBool(text)
}

// Int waits for an answer that is a number.
func (c *Call) Int(ctx context.Context) (int64, error) {
	text, err := c.Text(ctx)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// end is called once, with the JVM's mu held or before anybody else has the call.
func (c *Call) end(answer []string, err error) {
	c.answer, c.err = answer, err
	close(c.done)
}

// Grant is one turn of a thread of a hammer. The durations are since one fixed instant of this
// machine's monotonic clock, which is the same for all JVMs and no other clock.
type Grant struct {
	Owner                 string // uuid:threadId
	Asked, Granted, Freed time.Duration
	Wall                  time.Time // when it was granted, to the microsecond
}

// granted notes a grant. Peer and this package are compiled together: no number fails to parse.
func (c *Call) granted(words []string) {
	if len(words) != 5 {
		return
	}
	var n [4]int64
	for i := range n {
		n[i], _ = strconv.ParseInt(words[i+1], 10, 64)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grants = append(c.grants, Grant{
		Owner: words[0], Wall: time.UnixMicro(n[3]),
		Asked: time.Duration(n[0]), Granted: time.Duration(n[1]), Freed: time.Duration(n[2]),
	})
}

// Grants returns the grants so far of a hammer that tells.
func (c *Call) Grants() []Grant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Grant(nil), c.grants...)
}
