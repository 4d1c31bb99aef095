// Package security is about users with some right on the server. They use that right for all the
// harm that they can do to others' locks. They must achieve what docs/security.md says, and no
// more.
package security

import (
	"testing"

	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }
