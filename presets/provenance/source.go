package provenance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Role is how a source acts on a field.
type Role uint8

// The roles. Defaults fill what the user left open; the others outrank the user.
const (
	Default  Role = iota // a preset's defaults
	Override             // a preset's overrides
	Remove               // a preset's remove
	Forbid               // a preset's forbid or require: it sets no field, but it is recorded
	Legacy               // a VirtualMachineInstancePreset
	Platform             // a platform default
	Require              // a preset's require; records have Forbid, which older replicas can read
)

var roleNames = [...]string{"default", "override", "remove", "forbid", "legacy", "platform", "require"}

// String returns the role's name as it is stored.
func (role Role) String() string {
	if int(role) < len(roleNames) {
		return roleNames[role]
	}
	return "role " + strconv.Itoa(int(role))
}

// IsRule reports whether a source in this role only checks the result.
func (role Role) IsRule() bool { return role == Forbid || role == Require }

// OutranksUser reports whether a source in this role acts against the user's value.
func (role Role) OutranksUser() bool { return role == Override || role == Remove }

// A Source is one preset in one role, or the platform.
type Source struct {
	// Preset is NAME for a namespaced preset, cluster/NAME for a cluster one, and for a platform
	// default the name of its rule.
	Preset string
	// Generation is the preset's metadata.generation; 0 for the platform.
	Generation int64
	Role       Role
	// Hash identifies the values that the preset set, see presets.Compiled. It is empty for the
	// platform and in old records.
	Hash string
}

// String returns the stored form, which has no hash: cluster/windows@3:override.
func (s Source) String() string {
	if s.Generation == 0 {
		return s.Preset + ":" + s.Role.String()
	}
	return s.Preset + "@" + strconv.FormatInt(s.Generation, 10) + ":" + s.Role.String()
}

func parseSource(text string) (Source, error) {
	name, roleName, ok := strings.Cut(text, ":")
	if !ok {
		return Source{}, fmt.Errorf("cannot parse source %q: want NAME@GENERATION:ROLE", text)
	}
	s := Source{Preset: name}
	if at := strings.LastIndexByte(name, '@'); at >= 0 {
		generation, err := strconv.ParseInt(name[at+1:], 10, 64)
		if err != nil || generation < 1 {
			return Source{}, fmt.Errorf("cannot parse generation of source %q: want a positive number", text)
		}
		s.Preset, s.Generation = name[:at], generation
	}
	i := slices.Index(roleNames[:], roleName)
	if i < 0 {
		return Source{}, fmt.Errorf("cannot parse source %q: unknown role %q", text, roleName)
	}
	s.Role = Role(i)
	return s, nil
}
