package partialobject

import (
	"slices"
	"strconv"
	"strings"
	"unique"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// A Record has the names of presets and exceptions in the provenance record of an object.
type Record struct {
	Presets    []PresetUse
	Exceptions []string
}

// Applied returns the record of any object that has one.
func (r *Record) Applied() *Record { return r }

// A PresetUse is a preset in the version that an object has. Equal values share memory.
type PresetUse struct{ handle unique.Handle[presetUse] }

type presetUse struct{ ref, version string }

// Ref returns the name of the preset as in the record.
func (u PresetUse) Ref() string { return u.handle.Value().ref }

// Version identifies the content of the preset.
func (u PresetUse) Version() string { return u.handle.Value().version }

// IsBetween reports whether a part of the version is of a generation after one, up to another.
func (u PresetUse) IsBetween(after, upTo int64) bool {
	for part := range strings.SplitSeq(u.Version(), ",") {
		_, text, _ := strings.Cut(part, "@")
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && after < n && n <= upTo {
			return true
		}
	}
	return false
}

// Is reports whether the version is one generation with a hash.
func (u PresetUse) Is(hash string, generation int64) bool {
	return u.Version() == versionOf(hash, generation)
}

func versionOf(hash string, generation int64) string {
	return hash + "@" + strconv.FormatInt(generation, 10)
}

// IsPresetVersion reports whether a version is that of a preset with this hash. A record without
// hashes has the generation.
func IsPresetVersion(version, hash string, generation int64) bool {
	for part := range strings.SplitSeq(version, ",") {
		if of, number, _ := strings.Cut(part, "@"); of != hash && (of != "" || number != strconv.FormatInt(generation, 10)) {
			return false
		}
	}
	return true
}

// HasPresetGeneration reports whether a part of a version is of this generation of a preset.
func HasPresetGeneration(version string, generation int64) bool {
	for part := range strings.SplitSeq(version, ",") {
		if _, number, _ := strings.Cut(part, "@"); number == strconv.FormatInt(generation, 10) {
			return true
		}
	}
	return false
}

// read fills r from annotations. An object that was trimmed before has no annotation, and keeps r.
func (r *Record) read(annotations map[string]string) {
	text := annotations[v1alpha1.AnnotationProvenance]
	if text == "" {
		return
	}
	*r = Record{}
	record, err := provenance.DecodeSources(text)
	if err != nil {
		return
	}
	r.Presets = presetUses(record)
	for _, e := range record.Exceptions {
		r.Exceptions = append(r.Exceptions, strings.Clone(e.Name))
	}
}

// presetUses returns the presets of a record, sorted by name.
func presetUses(record *provenance.Record) []PresetUse {
	versions := map[string][]string{}
	for _, s := range record.Sources {
		if s.Role != provenance.Platform && s.Role != provenance.Legacy {
			versions[s.Preset] = append(versions[s.Preset], versionOf(s.Hash, s.Generation))
		}
	}
	out := make([]PresetUse, 0, len(versions))
	for ref, of := range versions {
		slices.Sort(of)
		out = append(out, PresetUse{unique.Make(presetUse{ref, strings.Join(slices.Compact(of), ",")})})
	}
	slices.SortFunc(out, func(a, b PresetUse) int { return strings.Compare(a.Ref(), b.Ref()) })
	return out
}
