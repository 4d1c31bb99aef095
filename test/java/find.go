package java

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// The versions of Redisson that the tests run: the last of each of the two lines in use.
const (
	V3 = "3.52.0"
	V4 = "4.7.0"
)

// Tools are the programs that this package needs, by their paths.
type Tools struct {
	Java, Javac, Maven string
}

// Find looks for the tools on the PATH. Its error names all that are missing.
func Find() (Tools, error) {
	var tools Tools
	var errs []error
	wanted := map[string]*string{"java": &tools.Java, "javac": &tools.Javac, "mvn": &tools.Maven}
	for name, path := range wanted {
		var err error
		*path, err = exec.LookPath(name)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return tools, fmt.Errorf("no JDK, or no Maven: %w", err)
	}
	return tools, nil
}

// T is what this package needs of a test or benchmark.
type T interface {
	Helper()
	Cleanup(what func())
	Failed() bool
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Require ends the test unless the tools are there: a skip by default, a failure where the
// environment promises them.
func Require(t T) {
	t.Helper()
	_, err := Find()
	switch {
	case err == nil:
	case os.Getenv("FAIRLOCK_REQUIRE_JAVA") == "1":
		t.Fatalf("FAIRLOCK_REQUIRE_JAVA=1, but there is no Java to test against: %v", err)
	default:
		t.Skipf("NOT SHOWN: without Java this test says nothing about the real Redisson. "+
			"Put java, javac (11 or newer) and mvn into PATH: %v", err)
	}
}
