package stage

import (
	"cmp"
	"fmt"
	"hash"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// remembered is how many entries a history keeps for printing. The digest covers all entries.
const remembered = 3000

// entry is one thing that happened.
type entry struct {
	at   time.Duration // since the beginning of the run
	who  string
	what string
}

func (e entry) String() string { return fmt.Sprintf("%16.9fs  %-8s %s", e.at.Seconds(), e.who, e.what) }

// History is all that happened, in order. Entries of one instant have no order and get one.
type History struct {
	start   time.Time
	aliases *strings.Replacer // long names, made short

	mu     sync.Mutex // guards what follows; no other mutex is locked under it
	last   []entry
	now    []entry // the entries of the present instant, in no order
	digest hash.Hash64
	text   []byte // what is added to digest
	total  int
	echo   func(string)
}

// NewHistory returns an empty history. echo gets the entries as they come; it may be nil.
func NewHistory(echo func(string)) *History {
	return &History{start: time.Now(), digest: fnv.New64a(), aliases: strings.NewReplacer(), echo: echo}
}

// Note adds what somebody did at this instant.
func (h *History) Note(who, format string, args ...any) {
	e := entry{time.Since(h.start), who, fmt.Sprintf(format, args...)}
	h.mu.Lock()
	defer h.mu.Unlock()
	e.what = h.aliases.Replace(e.what)
	if len(h.now) > 0 && h.now[0].at != e.at {
		h.settle()
	}
	h.now = append(h.now, e)
}

// Alias has all later entries use short names for long ones.
func (h *History) Alias(pairs []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.aliases = strings.NewReplacer(pairs...)
}

// settle sorts the entries of an instant that is over. h.mu must be held.
func (h *History) settle() {
	slices.SortFunc(h.now, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.who, b.who), cmp.Compare(a.what, b.what))
	})
	for _, e := range h.now {
		h.text = strconv.AppendInt(h.text[:0], int64(e.at), 10)
		for _, part := range [...]string{" ", e.who, " ", e.what, "\n"} {
			h.text = append(h.text, part...)
		}
		_, _ = h.digest.Write(h.text)
		if h.echo != nil {
			h.echo(e.String())
		}
	}
	h.total += len(h.now)
	h.last = append(h.last, h.now...)
	if len(h.last) > 2*remembered {
		h.last = append(h.last[:0], h.last[len(h.last)-remembered:]...)
	}
	h.now = h.now[:0]
}

// Sum returns the digest of everything so far.
func (h *History) Sum() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settle()
	return h.digest.Sum64()
}

// Tail returns the last n entries of the history.
func (h *History) Tail(n int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settle()
	var b strings.Builder
	for _, e := range h.last[max(0, len(h.last)-n):] {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}

// Short returns the text with short names.
func (h *History) Short(text string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.aliases.Replace(text)
}
