// Package operators is about the view of those who look after locks: lists of locks, and what the
// events say about them.
package operators

import (
	"testing"

	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }
