package snippets_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newcomer is the program of the README. What follows the package clause is a file of its own
// there.
const newcomer = "package main"

func TestANewcomerComesFromTheReadmeToALockInAModuleOfTheirOwn(t *testing.T) {
	dir := t.TempDir()
	checkout, err := filepath.Abs("../..")
	must(t, err)
	must(t, os.Symlink(checkout, filepath.Join(dir, "locks")))
	page := guides(t)["readme.md"]
	var program string
	for _, block := range blocks(page, "go") {
		if strings.HasPrefix(block, newcomer) {
			program = block
		}
	}
	var steps []string
	for _, block := range blocks(page, "sh") {
		if strings.HasPrefix(block, "mkdir hello") || strings.HasPrefix(block, "go mod tidy") {
			steps = append(steps, block)
		}
	}
	if program == "" || len(steps) != 2 {
		t.Fatalf("the README has changed: %q, %q", program, steps)
	}
	// What is downloaded is rehearsed in scripts/release; here, it is the checkout.
	checkedOut := "go mod edit -replace github.com/fairlock/locks=../locks"
	if !strings.Contains(page, "`"+checkedOut+"`") || !strings.Contains(steps[0], "go get github.com/fairlock/locks@latest") {
		t.Fatalf("the README has changed: %q", steps[0])
	}
	steps[0] = strings.Replace(steps[0], "go get github.com/fairlock/locks@latest", checkedOut, 1)
	must(t, os.Mkdir(filepath.Join(dir, "saved"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "saved", "main.go"), []byte(program), 0o600))
	shell := exec.Command("sh", "-ec", steps[0]+"\ncp ../saved/main.go .\n"+steps[1])
	shell.Dir = dir
	shell.Env = append(os.Environ(), "GOWORK=off")
	out, err := shell.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "order:42 is ours, with token 1") {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestALockWithoutAFunctionAroundIt(t *testing.T) {
	locker, ctx := tryOut(t), t.Context()
	var paid int64
	pay := func(_ context.Context, token int64) error {
		paid = token
		return nil
	}
	pays := func() error {
		//guide:readme.md
		lease, err := locker.Lock(ctx, "order:42") // waits in line until ctx is done
		if err != nil {
			return err
		}
		defer lease.Unlock(ctx) // works even when ctx is done
		return pay(lease.Context(), lease.Token())
		//guide:end
	}
	must(t, pays())
	if paid == 0 {
		t.Error("there was no token")
	}
}
