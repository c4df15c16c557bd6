package originreport

import (
	"fmt"
	"strings"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// A Source says where a value comes from.
type Source struct {
	// From is user, preset, platform, instancetype, preference, or unknown (unreadable record).
	From       string `json:"from"`
	Kind       string `json:"kind,omitempty"`
	Name       string `json:"name,omitempty"`
	Preset     string `json:"preset,omitempty"`
	Generation int64  `json:"generation,omitempty"`
	Role       string `json:"role,omitempty"`
	Rule       string `json:"rule,omitempty"`
}

// SourceOf returns the source of a field. The record of a damaged VM cannot be read.
func SourceOf(o presets.Origin, damaged bool) Source {
	switch {
	case o.ContributedBy.Name != "":
		from := "instancetype"
		if strings.HasSuffix(o.ContributedBy.Kind, "Preference") {
			from = "preference"
		}
		return Source{From: from, Kind: o.ContributedBy.Kind, Name: o.ContributedBy.Name}
	case damaged && o.User:
		return Source{From: "unknown"}
	case o.User:
		return Source{From: "user"}
	}
	return RecordedSource(o.By)
}

// RecordedSource returns the source that a record names; the zero value is the user.
func RecordedSource(by provenance.Source) Source {
	switch {
	case by == provenance.Source{}:
		return Source{From: "user"}
	case by.Role == provenance.Platform:
		return Source{From: "platform", Rule: by.Preset}
	}
	return Source{From: "preset", Preset: by.Preset, Generation: by.Generation, Role: by.Role.String()}
}

// String formats the source for a table.
func (s Source) String() string {
	switch s.From {
	case "preset":
		return fmt.Sprintf("%s (%s)", s.Preset, s.Role)
	case "platform":
		return fmt.Sprintf("platform (%s)", s.Rule)
	case "instancetype", "preference":
		return s.Kind + " " + s.Name
	}
	return s.From
}

// phrase formats the source for a sentence.
func (s Source) phrase() string {
	if s.From == "preset" {
		return "preset " + s.String()
	}
	return s.String()
}

// Class returns the class of the origin in pages, pictures and terminals; empty if it has none.
func (s Source) Class() string {
	switch s.From {
	case "":
		return ""
	case "preset":
		if s.Role != provenance.Default.String() && s.Role != provenance.Legacy.String() {
			return ClassOverride
		}
		return ClassDefault
	case "preference":
		return ClassInstancetype
	}
	return "origin-" + s.From
}

// The classes of origins.
const (
	ClassUser         = "origin-user"
	ClassDefault      = "origin-preset-default"
	ClassOverride     = "origin-preset-override"
	ClassPlatform     = "origin-platform"
	ClassInstancetype = "origin-instancetype"
	ClassUnknown      = "origin-unknown"
	ClassLost         = "lost"
)
