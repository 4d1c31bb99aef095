package java

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func TestTheJarsOfAVersionAreFetchedOnceAndFoundWithoutMavenFromThenOn(t *testing.T) {
	Require(t)
	for _, version := range []string{V3, V4} {
		t.Run(version, func(t *testing.T) {
			first, err := Classpath(version)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(first, "redisson-"+version+".jar") {
				t.Fatalf("no jar of it in %s", first)
			}
			breakMaven(t)
			if again, err := Classpath(version); err != nil || again != first {
				t.Errorf("then %q, %v", again, err)
			}
		})
	}
}

// breakMaven makes mvn a program that fails, until the test ends.
func breakMaven(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for name, program := range map[string]string{"mvn": "false", "java": "java", "javac": "javac"} {
		path, err := exec.LookPath(program)
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

func TestAProgramThatDoesNotCompileIsAnErrorWithTheCompilersWordsAndIsNotKept(t *testing.T) {
	Require(t)
	broken := fstest.MapFS{"Broken.java": {Data: []byte("class Broken { int x = ; }")}}
	for range 2 {
		_, err := Compile(V4, broken)
		if err == nil || !strings.Contains(err.Error(), "illegal start of expression") {
			t.Fatalf("it says %v", err)
		}
	}
}

func TestCallersAtTheSameTimeAllGetTheWholeOfWhatOneOfThemMade(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir()) // where other systems have the cache
	const callers = 8
	made, got := make(chan string, callers), make(chan error, callers)
	for range callers {
		go func() {
			dir, err := cached("thing", func(dir string) error {
				made <- dir
				return os.WriteFile(filepath.Join(dir, "file"), []byte("whole"), 0o600)
			})
			if err == nil {
				_, err = os.Stat(filepath.Join(dir, "file"))
			}
			got <- err
		}()
	}
	for range callers {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
	if len(made) != 1 {
		t.Errorf("%d of them made it", len(made))
	}
}

func TestTheTestIsSkippedOrFailsWithoutJavaAndSaysWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for required, want := range map[string]string{"": "skip", "1": "fatal"} {
		t.Setenv("FAIRLOCK_REQUIRE_JAVA", required)
		v := &verdict{T: t}
		Require(v)
		if v.what != want || !strings.Contains(v.text, "mvn") || !strings.Contains(v.text, "javac") {
			t.Errorf("FAIRLOCK_REQUIRE_JAVA=%s: %s %q", required, v.what, v.text)
		}
	}
}
