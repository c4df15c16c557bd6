package machine

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unique"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// A PresetUse is a preset with the version of it that a machine has. Many machines have the
// same, which is stored once.
type PresetUse struct{ handle unique.Handle[presetUse] }

type presetUse struct{ ref, version string }

// Ref names the preset as the machine does.
func (u PresetUse) Ref() string { return u.handle.Value().ref }

// Version says what the preset gave. It is equal where that is equal.
func (u PresetUse) Version() string { return u.handle.Value().version }

// IsPresetVersion reports whether a version is that of a preset with this hash. Records without
// hashes have generations.
func IsPresetVersion(version, hash string, generation int64) bool {
	for one := range strings.SplitSeq(version, ",") {
		if one != hash && one != generationVersion(generation) {
			return false
		}
	}
	return true
}

func generationVersion(generation int64) string {
	return "@" + strconv.FormatInt(generation, 10)
}

// recorded are the presets and the exceptions that a record names, by name. Without a record they
// are those that were read from it before it was trimmed.
func recorded(annotations map[string]string, presets []PresetUse, exceptions []string) ([]PresetUse, []string) {
	text := annotations[v1alpha1.AnnotationProvenance]
	if text == "" {
		return presets, exceptions
	}
	record, err := provenance.DecodeSources(text)
	if err != nil {
		return nil, nil
	}
	exceptions = nil
	for _, e := range record.Exceptions {
		exceptions = append(exceptions, strings.Clone(e.Name))
	}
	return usesOf(record), exceptions
}

// usesOf are the presets that a record names, by name.
func usesOf(record *provenance.Record) []PresetUse {
	versions := map[string][]string{}
	for _, s := range record.Sources {
		if s.Role != provenance.Platform && s.Role != provenance.Legacy {
			versions[s.Preset] = append(versions[s.Preset], cmp.Or(s.Hash, generationVersion(s.Generation)))
		}
	}
	out := make([]PresetUse, 0, len(versions))
	for ref, of := range versions {
		slices.Sort(of)
		use := presetUse{ref, strings.Join(slices.Compact(of), ",")}
		out = append(out, PresetUse{unique.Make(use)})
	}
	slices.SortFunc(out, func(a, b PresetUse) int { return strings.Compare(a.Ref(), b.Ref()) })
	return out
}
