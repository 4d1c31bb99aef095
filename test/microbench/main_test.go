// Package microbench measures what one call costs, as a ratio within one run or in requests. bench/
// compares with others.
package microbench

import (
	"testing"

	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }
