// Package rolling is about deployments that roll: Lockers with the scripts of a released version
// share locks with those of today.
package rolling

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// scripts are the scripts of a version: their texts, by the hashes of those of today.
type scripts map[any]string

var verbs = []string{"enter", "leave", "renew", "reassert", "inspect", "force", "evict"}

// released returns the scripts of each released version with today's protocol. scripts/release.sh
// writes them down. As long as there is none, today's stand in for them, under other hashes.
func released(t *testing.T) map[string]scripts {
	t.Helper()
	dirs, err := filepath.Glob("../../lua/testdata/released/" + strconv.Itoa(lua.Protocol) + "/*")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]scripts)
	for _, dir := range dirs {
		all[filepath.Base(dir)] = scriptsOf(t, func(verb string) string { return read(t, dir, verb+".lua") })
	}
	if len(all) == 0 {
		all["none yet"] = scriptsOf(t, func(verb string) string { return today(t, verb) + "\n-- of before\n" })
	}
	return all
}

func scriptsOf(t *testing.T, text func(verb string) string) scripts {
	t.Helper()
	s := make(scripts)
	for _, verb := range verbs {
		s[hash(today(t, verb))] = text(verb)
	}
	return s
}

func today(t *testing.T, verb string) string {
	return lua.Whole(verb+".lua", func(name string) string { return read(t, "../../lua", name) })
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func hash(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// DialHook is nothing to it.
func (s scripts) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook runs the scripts of the version in the place of today's.
func (s scripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.replace(cmd.Args())
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook does so for several commands.
func (s scripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			s.replace(cmd.Args())
		}
		return next(ctx, cmds)
	}
}

func (s scripts) replace(args []any) {
	switch name, _ := args[0].(string); strings.ToLower(name) {
	case "evalsha":
		if text, ok := s[args[1]]; ok {
			args[1] = hash(text)
		}
	case "eval":
		if text, ok := s[hash(args[1].(string))]; ok {
			args[1] = text
		}
	}
}
