package java

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// verdict is a test that notes how it would have ended.
type verdict struct {
	*testing.T
	what, text string
	cleanup    []func()
}

func (v *verdict) note(what, format string, args ...any) {
	v.what, v.text = what, v.text+fmt.Sprintf(format, args...)+"\n"
}

func (v *verdict) Skipf(format string, args ...any)  { v.note("skip", format, args...) }
func (v *verdict) Fatalf(format string, args ...any) { v.note("fatal", format, args...) }
func (v *verdict) Errorf(format string, args ...any) { v.note("error", format, args...) }
func (v *verdict) Logf(format string, args ...any)   { v.note(v.what, format, args...) }
func (v *verdict) Failed() bool                      { return v.what != "" }
func (v *verdict) Cleanup(what func())               { v.cleanup = append(v.cleanup, what) }

// clean ends the test.
func (v *verdict) clean() {
	for _, what := range v.cleanup {
		what()
	}
}
