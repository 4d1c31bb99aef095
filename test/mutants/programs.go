package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// scriptsIn is the variable that names the folder of a mutant's scripts.
const scriptsIn = "MUTANT_SCRIPTS"

// copyScripts copies the scripts to the same places in dir.
func copyScripts(dir string) error {
	scripts, err := filepath.Glob("lua/*.lua")
	parts, failed := filepath.Glob("lua/parts/*.lua")
	err = errors.Join(err, failed, os.MkdirAll(filepath.Join(dir, "lua", "parts"), 0o700))
	for _, name := range append(scripts, parts...) {
		text, failed := os.ReadFile(name)
		err = errors.Join(err, failed, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	return err
}

// build makes, in dir, the test programs that look for mutants of scripts. Package lua is built
// with one change: it reads its scripts from the folder that scriptsIn names.
func build(ctx context.Context, dir string) error {
	const file = "lua/lua.go"
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(raw)
	for _, change := range [][2]string{
		{"//go:embed *.lua parts/*.lua\nvar files embed.FS\n", fmt.Sprintf("var files = os.DirFS(os.Getenv(%q))\n", scriptsIn)},
		{"\t\"embed\"\n", "\t\"os\"\n"},
	} {
		if strings.Count(text, change[0]) != 1 {
			return fmt.Errorf("%s does not have %q once", file, change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	overlay, err := overlay(dir, file, text)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", dir+"/", "./lua", "./reentrant", "./fairlock", "./test/explore").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	whole := mutant{file: "lua/enter.lua"} // not changed: no layer may object
	if raw, err = os.ReadFile(whole.file); err != nil {
		return err
	}
	whole.text = string(raw)
	if by, test, err := whole.foundBy(ctx, dir); err != nil || by != survives {
		return errors.Join(fmt.Errorf("the scripts as they are are found by %s: %s", by, test), err)
	}
	return nil
}

// overlay writes the text that is to take a file's place into dir, and beside it the list for the
// go command's -overlay, whose name it returns.
func overlay(dir, file, text string) (string, error) {
	changed, list := filepath.Join(dir, "changed"), filepath.Join(dir, "overlay")
	file, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err == nil {
		err = os.WriteFile(changed, []byte(text), 0o600)
	}
	if err == nil {
		err = os.WriteFile(list, raw, 0o600)
	}
	return list, err
}
