package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/lua"
)

// commit is what a release was made of. scripts/release.sh fills it in: a program that go install
// builds from a module has no other trace of it.
const commit = ""

// versionCommand is "fairlock version".
type versionCommand struct {
	output.Flags
}

// versionRecord says what this program is, as JSON.
type versionRecord struct {
	Version  string `json:"version"`  // "(devel)" if it was built from a checkout
	Revision string `json:"revision"` // "" if it is not known
	Protocol int    `json:"protocol"` // see docs/compatibility.md
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// newVersionRecord reads the build information of this program.
func newVersionRecord() *versionRecord {
	r := &versionRecord{Version: "(devel)", Revision: commit, Protocol: lua.Protocol, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		r.Version = cmp.Or(info.Main.Version, r.Version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				r.Revision = s.Value
			}
		}
	}
	return r
}

// Run is called by kong.
func (v *versionCommand) Run() error {
	r := newVersionRecord()
	p := v.Page()
	p.Object(r)
	revision := ""
	if r.Revision != "" {
		revision = ", " + r.Revision[:min(len(r.Revision), 12)]
	}
	p.Say("%s", fmt.Sprintf("fairlock %s%s, protocol %d (%s, %s)", r.Version, revision, r.Protocol, r.Go, r.Platform))
	return p.Print()
}
