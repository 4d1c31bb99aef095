// Package written keeps what tests have others write.
package written

import (
	"bytes"
	"sync"
)

// Text is a bytes.Buffer that can be read while it is written.
type Text struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

// Write adds to the text.
func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// String is all that was written so far.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
