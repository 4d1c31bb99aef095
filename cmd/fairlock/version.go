package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/fairlock/locks/cmd/fairlock/internal/output"
)

// versionCommand is "fairlock version".
type versionCommand struct {
	output.Flags
}

// versionRecord says what this program is, as JSON.
type versionRecord struct {
	Version  string `json:"version"`  // "(devel)" if it was built from a checkout
	Revision string `json:"revision"` // "" if it is not known
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// newVersionRecord reads the build information of this program.
func newVersionRecord() *versionRecord {
	r := &versionRecord{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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
	p.Say("%s", fmt.Sprintf("fairlock %s%s (%s, %s)", r.Version, revision, r.Go, r.Platform))
	return p.Print()
}
