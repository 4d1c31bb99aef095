// Package operators is about what those see who look after locks: lists of them, and what is said
// about them.
package operators

import (
	"testing"

	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }
