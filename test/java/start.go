package java

// Start launches a JVM for one test, which is skipped without Java. When the test ends, so does the
// JVM, by kill -9 if it has not been ended in another way. If it ended by itself, the test fails.
// If the test has failed, what the JVM wrote to its standard error is shown.
func Start(t T, config Config) *JVM {
	t.Helper()
	Require(t)
	j, err := Launch(config)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		itself := j.endedByItself()
		j.Kill()
		if itself {
			t.Errorf("a JVM ended by itself: %v", j.process.cmd.ProcessState)
		}
		if said := j.Stderr(); t.Failed() && said != "" {
			t.Logf("the JVM %s said:\n%s", j.ID(), said)
		}
	})
	return j
}
