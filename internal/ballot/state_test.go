package ballot

import (
	"reflect"
	"testing"
)

// A field that decides what comes and that AppendLeg leaves out makes states equal that are not.
func TestWhoeverAddsAFieldToALegIsToldOfTheModelChecker(t *testing.T) {
	if n := reflect.TypeFor[leg]().NumField(); n != 27 {
		t.Errorf("a leg has %d fields: see what AppendLeg and Forget should do, and write that number down here", n)
	}
}
