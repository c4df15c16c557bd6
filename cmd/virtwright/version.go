package main

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// release, revision and committed are the version of a release, its commit and the time of the
// commit, which the linker sets.
var release, revision, committed string

// A version identifies the program. Without the linker's values, the commit is that of go build.
type version struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Date is the time of the commit, in RFC 3339.
	Date string `json:"date,omitempty"`
	// Modified is true if files differ from the commit.
	Modified  bool   `json:"modified,omitempty"`
	GoVersion string `json:"goVersion"`
}

func newVersion(shown string, s streams) *cobra.Command {
	o := &settings{}
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: "  # For a script\n  " + shown + " version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := oneOf("--output", o.output, "text", "json", "yaml"); err != nil {
				return err
			}
			v := versionOf(buildInfo())
			return o.printReport(s, v, func(s streams) error {
				_, err := fmt.Fprintln(s.out, v)
				return err
			})
		},
	}
	c.Flags().StringVarP(&o.output, "output", "o", "text", "output `format`: text, json, yaml")
	offer(c, "output", []string{"text", "json", "yaml"})
	return c
}

func buildInfo() *debug.BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if release != "" {
		info.Main.Version = release
		info.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.time", Value: committed}}
	}
	return info
}

func versionOf(info *debug.BuildInfo) version {
	v := version{Version: cmp.Or(info.Main.Version, "(devel)"), GoVersion: info.GoVersion}
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
func (v version) String() string {
	words := []string{program, v.Version, v.Commit}
	if v.Modified {
		words = append(words, "modified")
	}
	words = append(words, v.GoVersion)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}
