// Package version identifies the command line and the engine of the playground.
package version

import (
	"cmp"
	"runtime/debug"
	"slices"
	"strings"
)

// Release is the version of a release. The linker sets it, Revision and Committed.
var Release string

// Revision is the commit of a release.
var Revision string

// Committed is the time of that commit, in RFC 3339.
var Committed string

// Info identifies a program. Without the linker's values, the commit is that of go build.
type Info struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Date is the time of the commit, in RFC 3339.
	Date string `json:"date,omitempty"`
	// Modified is true if files differ from the commit.
	Modified  bool   `json:"modified,omitempty"`
	GoVersion string `json:"goVersion"`
}

// Current returns the version of this program.
func Current() Info {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if Release != "" {
		info.Main.Version = Release
		info.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: Revision}, {Key: "vcs.time", Value: Committed}}
	}
	return Of(info)
}

// Of returns the version that build information names.
func Of(info *debug.BuildInfo) Info {
	v := Info{Version: cmp.Or(info.Main.Version, "(devel)"), GoVersion: info.GoVersion}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Commit = setting.Value
		case "vcs.time":
			v.Date = setting.Value
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		}
	}
	return v
}

// String formats the version in one line, without the date.
func (v Info) String() string {
	words := []string{"virtwright", v.Version, v.Commit}
	if v.Modified {
		words = append(words, "modified")
	}
	words = append(words, v.GoVersion)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}
