package explore

import (
	"reflect"
	"testing"

	"github.com/fairlock/locks/internal/rules"
)

// A field that decides what comes and that no code has makes states equal that are not: the search
// then passes histories over, and says nothing.
func TestWhoeverAddsAFieldToARuleIsToldOfTheEncoders(t *testing.T) {
	for of, place := range map[reflect.Type]struct {
		fields int
		codes  string
	}{
		reflect.TypeFor[rules.Waiter]():    {12, "encodeWait and tidyWait"},
		reflect.TypeFor[rules.ClockPair](): {3, "parts and joined"},
		reflect.TypeFor[rules.Hold]():      {18, "encodeHold and tidyHold"},
		reflect.TypeFor[rules.Requests]():  {3, "client.encode"},
		reflect.TypeFor[rules.Line]():      {7, "pace.encode, and pace.pass if it is a time"},
	} {
		if n := of.NumField(); n != place.fields {
			t.Errorf("%v has %d fields: see what %s should do, and write that number down here", of, n, place.codes)
		}
	}
}
