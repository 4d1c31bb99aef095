// Package overlay builds a test program anew with changed sources, and has it show that it notices.
package overlay

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Edit is a change of one file. Several may change one.
type Edit struct {
	File string
	Make func(text string) (string, error)
}

// Fits fails if these edits of files of dir cannot be made: the text to change is no longer there.
func Fits(t *testing.T, dir string, edits []Edit) {
	t.Helper()
	if _, err := write(dir, t.TempDir(), edits); err != nil {
		t.Error(err)
	}
}

// Run builds the test program of the current directory with those files of dir changed, and runs its
// TestTheMutantIsFound with that environment variable.
func Run(t *testing.T, dir, env string, edits []Edit) {
	t.Helper()
	to := t.TempDir()
	list, err := write(dir, to, edits)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(to, "mutant")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", list, "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("building it: %v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), program, "-test.run=^TestTheMutantIsFound$", "-test.v")
	run.Env = append(os.Environ(), env)
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// write writes the changed files, and the list of them for the go command's -overlay.
func write(dir, to string, edits []Edit) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	text := make(map[string]string)
	for _, e := range edits {
		if _, ok := text[e.File]; !ok {
			raw, err := os.ReadFile(filepath.Join(dir, e.File))
			if err != nil {
				return "", err
			}
			text[e.File] = string(raw)
		}
		if text[e.File], err = e.Make(text[e.File]); err != nil {
			return "", err
		}
	}
	var list struct{ Replace map[string]string }
	list.Replace = make(map[string]string)
	for name, text := range text {
		changed := filepath.Join(to, name)
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
		list.Replace[filepath.Join(dir, name)] = changed
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	file := filepath.Join(to, "overlay.json")
	return file, os.WriteFile(file, raw, 0o600)
}
