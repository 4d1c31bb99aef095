// Package security has those who were given some right on the server do with it whatever they can
// to others' locks: what docs/security.md says of it, and no more.
package security

import (
	"testing"

	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }
