// Package microbench measures what one call costs, as a ratio within one run or as a number of
// requests. bench/ compares Fairlock with other libraries.
package microbench

import (
	"testing"

	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }
