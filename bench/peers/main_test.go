package peers

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// What is tested is short: compiling it well takes a JVM longer than running it.
	_ = os.Setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
	goleak.VerifyTestMain(m)
}
