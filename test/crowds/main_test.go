// Package crowds is about promises that take many callers or many connections, or a server that
// dies under them.
package crowds

import (
	"testing"

	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }
