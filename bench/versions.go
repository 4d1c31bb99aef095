package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/fairlock/locks/bench/host"
	"github.com/fairlock/locks/bench/peers"
)

// machine describes the machine of the measurement.
func machine() string {
	cpu := field("/proc/cpuinfo", "model name")
	if cpu == "" {
		cpu = runtime.GOARCH
	}
	kernel := runtime.GOOS
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel += " " + strings.TrimSpace(string(text))
	}
	return fmt.Sprintf("%s, %d cores, %s", cpu, runtime.NumCPU(), kernel)
}

// field returns the value of the first line of a file that begins with name.
func field(path, name string) string {
	text, err := os.ReadFile(path) //nolint:gosec // one of the kernel's
	if err != nil {
		return "" // this system does not have the file
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// versions gives the versions of what was measured with.
func versions(used []peers.Peer) string {
	modules := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			modules[m.Path] = m.Version
		}
	}
	said := []string{runtime.Version()}
	servers := map[string]bool{}
	for _, p := range used {
		servers[p.Server] = true
	}
	if servers[peers.Redis] {
		said = append(said, output(host.RedisProgram, `v=`, "Redis "), "go-redis "+modules["github.com/redis/go-redis/v9"])
	}
	if servers[peers.Etcd] {
		said = append(said, output(host.EtcdProgram, `etcd Version: `, "etcd "))
	}
	for _, p := range used {
		if p.Version != nil && !slices.Contains(said, p.Version()) {
			said = append(said, p.Version())
		}
		module := strings.TrimPrefix(p.Module, "github.com/") + " " + modules[p.Module]
		if modules[p.Module] != "" && !slices.Contains(said, module) {
			said = append(said, module)
		}
	}
	return strings.Join(said, ", ")
}

// output returns the word after mark in what a program prints about its version.
func output(program func() (string, error), mark, name string) string {
	path, err := program()
	if err != nil {
		return strings.TrimSpace(name) + " not installed"
	}
	text, err := exec.Command(path, "--version").Output()
	if err != nil {
		return name + "?"
	}
	_, version, _ := strings.Cut(string(text), mark)
	version, _, _ = strings.Cut(version, "\n")
	version, _, _ = strings.Cut(version, " ")
	return name + version
}
