package reentrant

import (
	"time"

	"github.com/fairlock/locks/internal/rules"
)

// Margin is how much earlier than the server a client ends its trust in a lease or claim of
// length d: a tenth of its first ten minutes and a hundredth of the rest, at least 10 ms. It pays
// for clocks that run apart and for the time it takes to stop.
func Margin(d time.Duration) time.Duration { return rules.Margin(d) }
