// Package security is about users with some right on the server, who use it for all the harm they
// can do to others' locks. They must achieve what docs/security.md says, and no more.
package security

import (
	"testing"

	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }
